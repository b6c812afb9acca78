// Which weights exist, how tp splits them, and how they are packed into flat buckets.
//
// A unit is the embedding, one block, or the head. The weights of a unit that share a placement and
// a decay rule form a bucket: one flat buffer per rank, one collective per bucket. The layout
// depends on the mesh but not on the ZeRO stage, so that the stages agree bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compile/model/model_tensors.h"
#include "graph/type.h"
#include "spec/run_spec.h"

namespace tessera {

// A weight as the graph uses it: one logical tensor, or several stacked along dimension 0.
struct Weight {
  std::string name;
  TensorType type;  // used by the forward pass: R on dp, fsdp and cp
  std::vector<LogicalTensor> parts;
  int64_t offset = 0;  // in the bucket, elements
  Shape local_shape;
};

struct Bucket {
  std::string name;
  int unit = 0;
  bool split_on_tp = false;
  bool matrices = true;  // otherwise vectors: norms, biases
  bool decay = false;
  bool experts = false;  // split over ep by experts
  std::vector<Weight> weights;
  int64_t numel = 0;  // of one tp rank, padded so that every shard is equal and aligned
  // A tied head on another pipeline rank than the embedding: the bucket it is a copy of.
  int copy_of = -1;
};

struct ParameterLayout {
  // What ZeRO splits over: fsdp when it is larger than 1, else dp; and cp, whose ranks share
  // weights. Rank r keeps slice mesh.position(r, shard_axes) of `shards` equal ones.
  AxisSet shard_axes;
  AxisSet replica_axes;  // the other data axes: their ranks keep the same slice
  int64_t shards = 1;
  int num_units = 0;
  int64_t num_parameters = 0;  // logical, without padding, tied weights once
  std::vector<Bucket> buckets;
  // Experts lie over ep by whole experts, so that ZeRO has the other axes for them.
  AxisSet expert_axes;
  AxisSet expert_shard_axes, expert_replica_axes;
  int64_t expert_shards = 1;

  // What splits the weights of this bucket, and what ZeRO splits it over.
  [[nodiscard]] AxisSet split_axes_of(const Bucket& bucket) const {
    if (bucket.experts) return expert_axes;
    return bucket.split_on_tp ? AxisSet(Axis::kTp) : AxisSet();
  }
  [[nodiscard]] AxisSet shard_axes_of(const Bucket& bucket) const {
    return bucket.experts ? expert_shard_axes : shard_axes;
  }
  [[nodiscard]] AxisSet replica_axes_of(const Bucket& bucket) const {
    return bucket.experts ? expert_replica_axes : replica_axes;
  }
  [[nodiscard]] int64_t shards_of(const Bucket& bucket) const {
    return bucket.experts ? expert_shards : shards;
  }
  [[nodiscard]] int64_t shard_numel(const Bucket& bucket) const {
    return bucket.numel / shards_of(bucket);
  }
  [[nodiscard]] int tied_bucket() const { return 0; }  // the embedding's, alone in it
  [[nodiscard]] bool tied_across_stages() const;
};

Mesh mesh_of(const ParallelSpec& parallel);

// `copy_tied`: the head keeps a copy of the tied embedding.
ParameterLayout layout_parameters(const RunSpec& spec, const Mesh& mesh, bool copy_tied = false);

// Rows of the embedding and of the head on all tp ranks together, with those that only fill up.
int64_t padded_vocabulary(const RunSpec& spec);

// Whether k and v are split over tp by heads, or replicated because there are too few of them.
bool splits_kv_heads(const ModelSpec& model, const Mesh& mesh);

// A rectangle that a logical tensor and the bucket of one rank have in common.
struct Piece {
  int64_t first_row = 0, num_rows = 0;  // of the logical tensor
  int64_t first_col = 0, num_cols = 0;
  int64_t bucket_offset = 0;  // of its first element
  int64_t bucket_stride = 0;  // between its rows
};
// `position`: of the rank, among those that split the weights of the bucket.
Piece piece_of(const LogicalTensor& tensor, int64_t position);

}  // namespace tessera
