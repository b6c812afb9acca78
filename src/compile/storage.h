// Which values share memory: views, in-place results, and the persistent state of the buckets.
// Storages get their place in an arena later, when their lifetimes are known.
#pragma once

#include <climits>
#include <map>
#include <string>
#include <vector>

#include "compile/program.h"
#include "compile/step.h"

namespace tessera {

using StorageId = int;

struct Storage {
  std::string name;
  ArenaKind arena = ArenaKind::kActivations;
  int64_t bytes = 0;
  bool persistent = false;         // lives for the whole run
  int64_t micro_batch_stride = 0;  // inputs: every micro-batch has its own part
  // In node positions, over all micro-batches; inclusive.
  int first_use = INT_MAX;
  int last_use = -1;
  int64_t offset = 0;
};

// A typed window of a storage.
struct Slot {
  StorageId storage = -1;
  int64_t offset = 0;
  DType dtype = DType::kF32;
  Shape shape;
  [[nodiscard]] bool valid() const { return storage >= 0; }
  [[nodiscard]] int64_t bytes() const { return numel(shape) * size_bytes(dtype); }
};

struct BucketSlots {
  Slot full;            // whole bucket; invalid when weights are gathered per use
  Slot weights;         // what the optimizer updates: whole bucket or this rank's shard
  Slot full_gradient;   // before reduction
  Slot gradient;        // after reduction, as the optimizer reads it
  Slot owned_gradient;  // the part that this rank counts in the norm
  Slot m, v, master;
};

struct StorageMap {
  std::vector<Storage> storages;
  std::map<ValueId, Slot> slots;
  std::vector<BucketSlots> buckets;
  Slot loss, metrics, rope_cos, rope_sin;

  StorageId add(std::string name, ArenaKind arena, int64_t bytes, bool persistent);
  Slot add_slot(const std::string& name, ArenaKind arena, DType dtype, const Shape& shape,
                bool persistent);
};

StorageMap assign_storage(const StepGraph& step, int rank);

}  // namespace tessera
