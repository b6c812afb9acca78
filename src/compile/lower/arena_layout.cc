#include "compile/lower/arena_layout.h"

#include <algorithm>
#include <deque>
#include <map>

#include "compile/lower/first_fit.h"

namespace tessera {

int64_t arena_aligned(int64_t bytes) {
  constexpr int64_t kAlignBytes = 64;
  return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
}

void find_lifetimes(const Program& program, const std::vector<Region>& region_of,
                    const std::vector<InstructionPlace>& places, const std::vector<int>& part_ends,
                    std::vector<Storage>& storages) {
  std::map<int, size_t> signaller;
  // By stream, collectives that compute has not waited for.
  std::array<std::deque<size_t>, kNumStreams> unsynced;
  const auto touch = [&](const Instruction& instruction, int position) {
    for (const auto* ids : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId id : *ids) {
        Storage& storage =
            storages[static_cast<size_t>(region_of[static_cast<size_t>(id)].storage)];
        storage.first_use = std::min(storage.first_use, position);
        storage.last_use = std::max(storage.last_use, position);
      }
    }
  };
  const auto& instructions = program.instructions;
  const auto end_of_part = [&](size_t i) {
    const InstructionPlace& place = places[i];
    return place.item < 0 ? place.position : part_ends[static_cast<size_t>(place.item)];
  };
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    if (instruction.stream == StreamKind::kPipe) {  // in memory of its own
      if (instruction.signal >= 0) signaller[instruction.signal] = i;
      continue;
    }
    touch(instruction, places[i].position);
    if (instruction.signal >= 0) signaller[instruction.signal] = i;
    if (has_collectives(instruction.stream)) {
      unsynced[static_cast<size_t>(instruction.stream)].push_back(i);
      continue;
    }
    for (const int event : instruction.waits) {
      const size_t done = signaller.at(event);
      if (!has_collectives(instructions[done].stream)) continue;
      std::deque<size_t>& waiting = unsynced[static_cast<size_t>(instructions[done].stream)];
      while (!waiting.empty() && waiting.front() <= done) {
        const size_t collective = waiting.front();
        const bool later = places[collective].item != places[i].item;
        touch(instructions[collective], later ? end_of_part(collective) : places[i].position);
        waiting.pop_front();
      }
    }
  }
  for (const StreamKind stream : kCollectiveStreams) {
    for (const size_t i : unsynced[static_cast<size_t>(stream)]) {
      touch(instructions[i], end_of_part(i));
    }
  }
}

namespace {

// Storages by size: large ones first, small ones fill the gaps.
void sort_by_size(std::vector<Storage*>& storages) {
  std::stable_sort(storages.begin(), storages.end(),
                   [](const Storage* a, const Storage* b) { return a->bytes > b->bytes; });
}

// A block of memory in which storages lie that share it in turn.
class Block {
 public:
  [[nodiscard]] int64_t place_for(const Storage& storage) const {
    return fit_.place_for({storage.first_use, storage.last_use}, arena_aligned(storage.bytes));
  }
  void add(Storage& storage, int64_t offset) {
    storage.offset = offset;
    fit_.add({storage.first_use, storage.last_use}, offset, arena_aligned(storage.bytes));
    placed_.push_back(&storage);
  }
  void add(Storage& storage) { add(storage, place_for(storage)); }
  [[nodiscard]] int64_t bytes() const { return fit_.bytes(); }
  void shift(int64_t base, int64_t stride) const {
    for (Storage* storage : placed_) {
      storage->offset += base;
      storage->instance_stride = stride;
    }
  }

 private:
  FirstFit fit_;
  std::vector<Storage*> placed_;
};

}  // namespace

void place_storages(std::vector<Storage>& storages, const std::map<int, int>& lanes,
                    std::array<int64_t, kNumArenas>& arena_bytes) {
  arena_bytes.fill(0);
  // With one lane, the stash of a micro-batch and the transients take turns anyway.
  const bool one_lane = lanes.size() == 1 && lanes.begin()->second == 1;
  std::array<std::map<int, std::vector<Storage*>>, kNumArenas> stash;  // by stage
  std::array<std::vector<Storage*>, kNumArenas> transient;
  for (Storage& storage : storages) {
    const auto arena = static_cast<size_t>(storage.arena);
    const bool used = storage.last_use >= 0;
    if (storage.kind == StorageKind::kPersistent || storage.kind == StorageKind::kPassing) {
      storage.offset = arena_bytes[arena];
      storage.instance_stride = arena_aligned(storage.bytes);
      arena_bytes[arena] += arena_aligned(storage.bytes) * storage.instances;
    } else if (used && storage.kind == StorageKind::kStash && !one_lane) {
      stash[arena][storage.stage].push_back(&storage);
    } else if (used) {
      transient[arena].push_back(&storage);
    }
  }
  for (size_t arena = 0; arena < kNumArenas; ++arena) {
    std::map<int, Block> lane;
    for (auto& [stage, kept] : stash[arena]) {
      sort_by_size(kept);
      for (Storage* storage : kept) lane[stage].add(*storage);
    }
    Block shared;
    sort_by_size(transient[arena]);
    for (Storage* storage : transient[arena]) {
      const auto own = lane.find(storage->stage);
      const int64_t gap = own == lane.end() ? 0 : own->second.place_for(*storage);
      if (own != lane.end() && gap + arena_aligned(storage->bytes) <= own->second.bytes()) {
        own->second.add(*storage, gap);
      } else {
        shared.add(*storage);
      }
    }
    for (const auto& [stage, block] : lane) {
      block.shift(arena_bytes[arena], block.bytes());
      arena_bytes[arena] += block.bytes() * lanes.at(stage);
    }
    shared.shift(arena_bytes[arena], 0);
    arena_bytes[arena] += shared.bytes();
  }
}

}  // namespace tessera
