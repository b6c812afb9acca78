// Which values share memory: views, in-place results, and the persistent state of the buckets.
// Storages get their place in an arena later, when their lifetimes are known.
//
// A micro-batch that is still to be differentiated keeps what its backward needs while other
// micro-batches run. So a storage has instances:
//   persistent  one, for the whole run
//   transient   used within one part of a stage: one, shared by all micro-batches
//   stash       kept from one part to the next: one per lane of the stage (a lane is a micro-batch
//               in flight)
//   passing     handed from stage to stage: as many as are alive at one time
#pragma once

#include <climits>
#include <map>
#include <string>
#include <vector>

#include "compile/lower/step_graph.h"
#include "compile/program/program.h"
#include "spec/run_file/lanes.h"

namespace tessera {

using StorageId = int;

enum class StorageKind : uint8_t { kPersistent, kTransient, kStash, kPassing };

constexpr int kEndOfStep = INT_MAX;  // as a last use: nobody takes the memory in this step

struct Storage {
  std::string name;
  ArenaKind arena = ArenaKind::kActivations;
  int64_t bytes = 0;
  StorageKind kind = StorageKind::kTransient;
  int stage = -1;                  // of transient and stash
  int instances = 1;               // of passing; of weights: versions; of gradients: sums of lanes
  int64_t micro_batch_stride = 0;  // inputs: every micro-batch has its own part
  // In positions of the rank's node order, over all micro-batches; inclusive.
  int first_use = INT_MAX;
  int last_use = -1;
  int64_t offset = 0;           // of the first instance
  int64_t instance_stride = 0;  // between instances
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
  std::vector<BucketSlots> buckets;  // invalid slots where another pipeline rank holds the bucket
  Slot loss, metrics, rope_cos, rope_sin;
  Slot document_starts;             // of one micro-batch; invalid unless documents are masked
  Slot update_tokens;               // asynchronous schedules
  Slot lane_sums;                   // base/lane_sums.h; invalid without lanes
  Slot router_load;                 // choices of every expert in every layer
  std::map<ValueId, Slot> staging;  // by result of an all-to-all: columns sorted by rank

  StorageId add(std::string name, ArenaKind arena, int64_t bytes, bool persistent);
  Slot add_slot(const std::string& name, ArenaKind arena, DType dtype, const Shape& shape,
                bool persistent);
};

// The nodes that a rank runs, stage by stage and part by part, then the update.
struct RankNodes {
  std::vector<size_t> nodes;               // places in the graph
  std::vector<int> position_of;            // by place in the graph; -1: not on this rank
  std::map<std::pair<int, int>, int> end;  // last position of (stage, part)
};
RankNodes nodes_of(const StepGraph& step, int rank);

StorageMap assign_storage(const StepGraph& step, const RankNodes& order, int rank);

// The micro-batches of the replica of `rank`, and whether its lanes overlap; without lanes where
// nothing is trained.
ReplicaBatch batch_of(const StepGraph& step, int rank);
// What the rank does in which order. Padding is left out where no other replica waits for it: only
// weights that are gathered for every use need all of them at once.
std::vector<PipelineItem> items_of(const StepGraph& step, int rank, const ReplicaBatch& batch);

inline StorageMap assign_storage(const StepGraph& step, int rank) {
  return assign_storage(step, nodes_of(step, rank), rank);
}

}  // namespace tessera
