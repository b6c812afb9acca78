#include "train/report/slow_rank.h"

#include <numeric>

namespace tessera {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Whether no rank of the same stage took longer in this step.
bool slowest_in(const Mesh& mesh, const std::vector<std::vector<double>>& compute_ms, int rank,
                size_t step) {
  const double mine = compute_ms[static_cast<size_t>(rank)][step];
  for (int other = 0; other < static_cast<int>(compute_ms.size()); ++other) {
    if (mesh.coord(other, Axis::kPp) != mesh.coord(rank, Axis::kPp)) continue;
    if (compute_ms[static_cast<size_t>(other)][step] > mine) return false;
  }
  return true;
}

}  // namespace

std::optional<Straggler> find_slow_rank(const Mesh& mesh,
                                        const std::vector<std::vector<double>>& compute_ms) {
  std::vector<double> means;
  for (const std::vector<double>& steps : compute_ms) means.push_back(mean(steps));
  const std::optional<Straggler> found = find_straggler(mesh, means);
  if (!found || found->more() <= kSlowerThanMedian) return std::nullopt;
  const size_t steps = compute_ms.front().size();
  size_t slowest = 0;
  for (size_t step = 0; step < steps; ++step) {
    if (slowest_in(mesh, compute_ms, found->rank, step)) ++slowest;
  }
  const bool mostly = static_cast<double>(slowest) >= kSlowestShare * static_cast<double>(steps);
  return mostly ? found : std::nullopt;
}

}  // namespace tessera
