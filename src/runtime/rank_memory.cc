#include "runtime/rank_memory.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

constexpr bool is_kept(ArenaKind arena) {
  return arena == ArenaKind::kParameters || arena == ArenaKind::kOptimizer ||
         arena == ArenaKind::kCache;
}

// What means something within one step alone.
constexpr bool is_room(ArenaKind arena) {
  return arena == ArenaKind::kActivations || arena == ArenaKind::kCommunication ||
         arena == ArenaKind::kWorkspace;
}

size_t index(ArenaKind arena) { return static_cast<size_t>(arena); }

std::string place_text(const std::string& name, DType dtype, const Shape& shape, int64_t offset) {
  return fmt::format("'{}' ({} x {} at byte {})", name, numel(shape), name_of(dtype), offset);
}

}  // namespace

std::vector<RankMemory::Place> RankMemory::places_of(const Program& program, ArenaKind arena) {
  std::vector<Place> places;
  const auto add = [&](BufferId id) {
    if (id == kNoBuffer || program.buffer(id).arena != arena) return;
    const Buffer& b = program.buffer(id);
    places.push_back({b.name, b.dtype, b.shape, b.offset});
  };
  for (const BucketBuffers& bucket : program.buckets) {
    for (const BufferId id : {bucket.weights, bucket.full, bucket.m, bucket.v, bucket.master}) {
      add(id);
    }
  }
  for (const BufferId id : program.serve.caches) add(id);
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

void RankMemory::share_room(const ArenaBytes& bytes) {
  TESSERA_CHECK(!shares_room_, "rank {}: room for Programs is there already", rank_);
  shares_room_ = true;
  for (const ArenaKind arena : kAllArenas) {
    if (!is_room(arena)) continue;
    room_[index(arena)] =
        device_.allocate(fmt::format("rank {} {}", rank_, name_of(arena)), bytes[index(arena)]);
  }
}

const HostArena& RankMemory::take_turns(const Program& program, ArenaKind arena) {
  const HostArena& room = room_[index(arena)];
  const int64_t needed = program.arena_bytes[index(arena)];
  require(needed <= room.size_bytes(),
          "rank {}: a Program needs {} bytes of {} where Programs take turns in {}; make room for "
          "the largest of them",
          rank_, needed, name_of(arena), room.size_bytes());
  return room;
}

void RankMemory::require_same_tables(const Program& program) {
  std::vector<Place> tables;
  for (const BufferId id : {program.rope_cos, program.rope_sin}) {
    if (id == kNoBuffer) continue;
    const Buffer& b = program.buffer(id);
    tables.push_back({b.name, b.dtype, b.shape, b.offset});
  }
  if (tables_.empty()) tables_ = tables;
  require(tables == tables_,
          "rank {}: a Program has its tables of rotary positions at another place than those it "
          "takes turns with; compile all of them for the same longest sequence",
          rank_);
}

ProgramMemory RankMemory::admit(const Program& program) {
  if (shares_room_) require_same_tables(program);
  ProgramMemory::Arenas arenas;
  for (const ArenaKind arena : kAllArenas) {
    const size_t i = index(arena);
    if (is_kept(arena) && program.arena_bytes[i] > 0) {
      arenas.shared[i] = &keep(program, arena);
    } else if (shares_room_ && is_room(arena)) {
      arenas.shared[i] = &take_turns(program, arena);
    } else {
      arenas.own[i] = allocate(program, arena);
    }
  }
  return {device_, program, std::move(arenas)};
}

}  // namespace tessera
