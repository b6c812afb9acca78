#include "sim/replay/distinct_programs.h"

#include <algorithm>
#include <array>
#include <map>

#include "compile/model/limits.h"

namespace tessera {

RankPrograms distinct_programs(const StepGraph& step) {
  RankPrograms programs;
  programs.mesh = step.mesh;
  const bool one_on_cp = cp_ranks_do_the_same(step.spec);
  std::map<std::array<int64_t, 3>, int> known;
  for (int rank = 0; rank < static_cast<int>(step.mesh.world()); ++rank) {
    const std::array<int64_t, 3> place = {step.mesh.coord(rank, Axis::kPp),
                                          one_on_cp ? 0 : step.mesh.coord(rank, Axis::kCp),
                                          std::min<int64_t>(1, step.mesh.coord(rank, Axis::kTp))};
    const auto [found, is_new] =
        known.try_emplace(place, static_cast<int>(programs.distinct.size()));
    if (is_new) programs.distinct.push_back(std::make_shared<const Program>(lower(step, rank)));
    programs.of_rank.push_back(found->second);
  }
  return programs;
}

}  // namespace tessera
