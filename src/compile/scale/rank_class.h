// Ranks that do the same. Their Programs have the same instructions over buffers of the same sizes;
// they differ in who the peers are and in which part of a tensor is held. What makes Programs
// differ is the place in the pipeline, and which gradients a rank counts in the norm.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/model/parameters.h"
#include "graph/mesh.h"

namespace tessera {

struct RankClass {
  int pipeline_rank = 0;
  // Whether it counts the gradients of weights that tp splits; of those it does not; of experts.
  bool counts_split = false, counts_whole = false, counts_experts = false;
  int64_t lanes = 1;   // that it owns, with train.lanes
  int first_rank = 0;  // the lowest
  int64_t ranks = 0;

  [[nodiscard]] bool counts(const Bucket& bucket) const {
    if (bucket.experts) return counts_experts;
    return bucket.split_on_tp ? counts_split : counts_whole;
  }
};

// The class that `rank` belongs to, as a class of one. `lanes`: train.lanes, over so many groups of
// replicas as train.redundancy says.
RankClass class_of(const Mesh& mesh, const ParameterLayout& layout, int rank, int64_t lanes = 0,
                   int64_t redundancy = 1);

// By pipeline rank, then by first rank. Together they have every rank once.
std::vector<RankClass> rank_classes(const Mesh& mesh, const ParameterLayout& layout,
                                    int64_t lanes = 0, int64_t redundancy = 1);

}  // namespace tessera
