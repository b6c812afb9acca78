#include "train/report/straggler.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

double ComputeClock::ms_per_step(double waited_s) const {
  if (steps_ == 0) return 0;
  return std::max(0.0, seconds_ - waited_s) * 1e3 / static_cast<double>(steps_);
}

std::optional<Straggler> find_straggler(const Mesh& mesh, const std::vector<double>& compute_ms) {
  std::map<int64_t, std::vector<int>> stages;
  for (int rank = 0; rank < static_cast<int>(compute_ms.size()); ++rank) {
    stages[mesh.coord(rank, Axis::kPp)].push_back(rank);
  }
  std::optional<Straggler> worst;
  for (const auto& [stage, ranks] : stages) {
    if (ranks.size() < 2) continue;
    std::vector<double> times;
    for (const int rank : ranks) times.push_back(compute_ms[static_cast<size_t>(rank)]);
    const double usual = median(times);
    if (usual <= 0) continue;
    const size_t slowest =
        static_cast<size_t>(std::max_element(times.begin(), times.end()) - times.begin());
    const Straggler found{ranks[slowest], times[slowest], usual};
    if (found.more() <= kStragglerShare) continue;
    if (!worst.has_value() || found.more() > worst->more()) worst = found;
  }
  return worst;
}

void add_compute_times(const Mesh& mesh, const std::vector<double>& compute_ms,
                       nlohmann::ordered_json& summary) {
  summary["compute_ms"] = compute_ms;
  if (const auto straggler = find_straggler(mesh, compute_ms)) {
    summary["straggler"] = {{"rank", straggler->rank},
                            {"compute_ms", straggler->compute_ms},
                            {"median_ms", straggler->median_ms},
                            {"more_pct", straggler->more() * 100}};
  }
}

}  // namespace tessera
