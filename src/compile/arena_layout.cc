#include "compile/arena_layout.h"

#include <algorithm>
#include <map>

namespace tessera {
namespace {

constexpr int64_t kAlignBytes = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

// Lowest offset at which `storage` meets nobody alive at the same time. `placed` is sorted by
// offset.
int64_t first_fit(const Storage& storage, const std::vector<const Storage*>& placed) {
  int64_t at = 0;
  for (const Storage* other : placed) {
    const bool together =
        storage.first_use <= other->last_use && other->first_use <= storage.last_use;
    if (!together) continue;
    if (other->offset >= at + aligned(storage.bytes)) break;
    at = std::max(at, other->offset + aligned(other->bytes));
  }
  return at;
}

}  // namespace

void find_lifetimes(const Program& program, const std::vector<StorageId>& storage_of,
                    const std::vector<int>& position_of, std::vector<Storage>& storages) {
  const int end =
      position_of.empty() ? 0 : *std::max_element(position_of.begin(), position_of.end());
  std::map<int, size_t> signaller;
  std::vector<size_t> unsynced;  // collectives that compute has not waited for
  const auto touch = [&](const Instruction& instruction, int position) {
    for (const auto* ids : {&instruction.inputs, &instruction.outputs}) {
      for (const BufferId id : *ids) {
        Storage& storage = storages[static_cast<size_t>(storage_of[static_cast<size_t>(id)])];
        storage.first_use = std::min(storage.first_use, position);
        storage.last_use = std::max(storage.last_use, position);
      }
    }
  };
  const auto& instructions = program.instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    touch(instruction, position_of[i]);
    if (instruction.signal >= 0) signaller[instruction.signal] = i;
    if (instruction.stream == StreamKind::kComm) {
      unsynced.push_back(i);
      continue;
    }
    for (const int event : instruction.waits) {
      const size_t done = signaller.at(event);
      while (!unsynced.empty() && unsynced.front() <= done) {
        const Instruction& collective = instructions[unsynced.front()];
        // Waited for in a later micro-batch: it holds its memory to the end of its own.
        const bool later = collective.micro_batch != instruction.micro_batch;
        touch(collective, later ? end : position_of[i]);
        unsynced.erase(unsynced.begin());
      }
    }
  }
  for (const size_t i : unsynced) touch(instructions[i], end);
}

void place_storages(std::vector<Storage>& storages, std::array<int64_t, kNumArenas>& arena_bytes) {
  arena_bytes.fill(0);
  std::array<std::vector<Storage*>, kNumArenas> transient;
  for (Storage& storage : storages) {
    const auto arena = static_cast<size_t>(storage.arena);
    if (storage.persistent) {
      storage.offset = arena_bytes[arena];
      arena_bytes[arena] += aligned(storage.bytes);
    } else if (storage.last_use >= 0) {
      transient[arena].push_back(&storage);
    }
  }
  for (size_t arena = 0; arena < kNumArenas; ++arena) {
    // Large ones first: small ones fill the gaps.
    std::stable_sort(transient[arena].begin(), transient[arena].end(),
                     [](const Storage* a, const Storage* b) { return a->bytes > b->bytes; });
    std::vector<const Storage*> placed;
    int64_t peak = 0;
    for (Storage* storage : transient[arena]) {
      storage->offset = first_fit(*storage, placed);
      peak = std::max(peak, storage->offset + aligned(storage->bytes));
      const auto at = std::upper_bound(
          placed.begin(), placed.end(), storage,
          [](const Storage* a, const Storage* b) { return a->offset < b->offset; });
      placed.insert(at, storage);
    }
    for (Storage* storage : transient[arena]) storage->offset += arena_bytes[arena];
    arena_bytes[arena] += peak;
  }
}

}  // namespace tessera
