#include "runtime/rank_memory.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

constexpr bool is_kept(ArenaKind arena) {
  return arena == ArenaKind::kParameters || arena == ArenaKind::kOptimizer;
}

size_t index(ArenaKind arena) { return static_cast<size_t>(arena); }

std::string place_text(const std::string& name, DType dtype, const Shape& shape, int64_t offset) {
  return fmt::format("'{}' ({} x {} at byte {})", name, numel(shape), name_of(dtype), offset);
}

}  // namespace

std::vector<RankMemory::Place> RankMemory::places_of(const Program& program, ArenaKind arena) {
  std::vector<Place> places;
  for (const BucketBuffers& bucket : program.buckets) {
    for (const BufferId id : {bucket.weights, bucket.full, bucket.m, bucket.v, bucket.master}) {
      if (id == kNoBuffer || program.buffer(id).arena != arena) continue;
      const Buffer& b = program.buffer(id);
      places.push_back({b.name, b.dtype, b.shape, b.offset});
    }
  }
  return places;
}

void RankMemory::require_same(const Kept& kept, const Program& program, ArenaKind arena) const {
  const std::vector<Place> places = places_of(program, arena);
  const auto [mine, theirs] =
      std::mismatch(places.begin(), places.end(), kept.places.begin(), kept.places.end());
  const auto text = [](const auto& at, const auto& end) {
    return at == end ? std::string("nothing")
                     : place_text(at->name, at->dtype, at->shape, at->offset);
  };
  require(mine == places.end() && theirs == kept.places.end(),
          "rank {}: a second Program cannot share the {} of the first: it keeps {} where the first "
          "keeps {}; compile both from the same model, mesh, dtype and ZeRO stage",
          rank_, name_of(arena), text(mine, places.end()), text(theirs, kept.places.end()));
  const int64_t bytes = program.arena_bytes[index(arena)];
  require(bytes == kept.arena.size_bytes(),
          "rank {}: a second Program cannot share the {} of the first: it needs {} bytes where the "
          "first has {}; compile both with the same schedule",
          rank_, name_of(arena), bytes, kept.arena.size_bytes());
}

HostArena RankMemory::allocate(const Program& program, ArenaKind arena) {
  return device_.allocate(fmt::format("rank {} {}", rank_, name_of(arena)),
                          program.arena_bytes[index(arena)]);
}

const HostArena& RankMemory::keep(const Program& program, ArenaKind arena) {
  Kept& kept = kept_[index(arena)];
  if (kept.arena.size_bytes() == 0) {
    kept.arena = allocate(program, arena);
    kept.places = places_of(program, arena);
  } else {
    require_same(kept, program, arena);
  }
  return kept.arena;
}

ProgramMemory RankMemory::admit(const Program& program) {
  ProgramMemory::Arenas arenas;
  for (const ArenaKind arena : kAllArenas) {
    const size_t i = index(arena);
    if (is_kept(arena) && program.arena_bytes[i] > 0) {
      arenas.shared[i] = &keep(program, arena);
    } else {
      arenas.own[i] = allocate(program, arena);
    }
  }
  return {device_, program, std::move(arenas)};
}

}  // namespace tessera
