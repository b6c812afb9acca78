#include "compile/scale/rank_class.h"

#include <algorithm>

#include "base/tree_shares.h"

namespace tessera {

// As in Lowering::lower_sum_squares: on the first replica and, for what tp does not split, on its
// first rank.
RankClass class_of(const Mesh& mesh, const ParameterLayout& layout, int rank, int64_t lanes,
                   int64_t redundancy) {
  const bool replica = mesh.position(rank, layout.replica_axes) == 0;
  const bool expert_replica = mesh.position(rank, layout.expert_replica_axes) == 0;
  const bool first_tp = mesh.coord(rank, Axis::kTp) == 0;
  RankClass result;
  result.pipeline_rank = static_cast<int>(mesh.coord(rank, Axis::kPp));
  result.counts_split = replica;
  result.counts_whole = replica && first_tp;
  result.counts_experts = expert_replica && (layout.expert_axes.contains(Axis::kTp) || first_tp);
  if (lanes > 0) {
    const int64_t owners = mesh.size(sample_axes()) / redundancy;
    result.lanes = tree_share(lanes, owners, mesh.position(rank, sample_axes()) % owners).count;
  }
  result.first_rank = rank;
  result.ranks = 1;
  return result;
}

std::vector<RankClass> rank_classes(const Mesh& mesh, const ParameterLayout& layout, int64_t lanes,
                                    int64_t redundancy) {
  const auto per_stage = static_cast<int>(mesh.world() / mesh.size(Axis::kPp));
  const auto same = [](const RankClass& a, const RankClass& b) {
    return a.counts_split == b.counts_split && a.counts_whole == b.counts_whole &&
           a.counts_experts == b.counts_experts && a.lanes == b.lanes;
  };
  std::vector<RankClass> first;  // of the first pipeline rank
  for (int rank = 0; rank < per_stage; ++rank) {
    const RankClass one = class_of(mesh, layout, rank, lanes, redundancy);
    const auto found = std::find_if(first.begin(), first.end(),
                                    [&](const RankClass& other) { return same(one, other); });
    if (found == first.end()) {
      first.push_back(one);
    } else {
      ++found->ranks;
    }
  }
  std::vector<RankClass> all;
  for (int64_t pp = 0; pp < mesh.size(Axis::kPp); ++pp) {
    for (RankClass one : first) {
      one.pipeline_rank = static_cast<int>(pp);
      one.first_rank += static_cast<int>(pp) * per_stage;
      all.push_back(one);
    }
  }
  return all;
}

}  // namespace tessera
