#include "compile/scale/rank_class.h"

#include <algorithm>

namespace tessera {

// As in Lowering::lower_sum_squares: on the first replica and, for what tp does not split, on its
// first rank.
RankClass class_of(const Mesh& mesh, const ParameterLayout& layout, int rank) {
  const bool replica = mesh.position(rank, layout.replica_axes) == 0;
  const bool expert_replica = mesh.position(rank, layout.expert_replica_axes) == 0;
  const bool first_tp = mesh.coord(rank, Axis::kTp) == 0;
  RankClass result;
  result.pipeline_rank = static_cast<int>(mesh.coord(rank, Axis::kPp));
  result.counts_split = replica;
  result.counts_whole = replica && first_tp;
  result.counts_experts = expert_replica && (layout.expert_axes.contains(Axis::kTp) || first_tp);
  result.first_rank = rank;
  result.ranks = 1;
  return result;
}

std::vector<RankClass> rank_classes(const Mesh& mesh, const ParameterLayout& layout) {
  const auto per_stage = static_cast<int>(mesh.world() / mesh.size(Axis::kPp));
  const auto same = [](const RankClass& a, const RankClass& b) {
    return a.counts_split == b.counts_split && a.counts_whole == b.counts_whole &&
           a.counts_experts == b.counts_experts;
  };
  std::vector<RankClass> first;  // of the first pipeline rank
  for (int rank = 0; rank < per_stage; ++rank) {
    const RankClass one = class_of(mesh, layout, rank);
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
