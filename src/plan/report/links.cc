#include "plan/report/links.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

// The group that traffic names, without what it says of the ends of the pipeline.
AxisSet axes_named(std::string_view name) {
  const std::string_view plain = name.substr(0, name.find('.'));
  for (int bits = 0; bits < 1 << kNumAxes; ++bits) {
    AxisSet axes;
    for (const Axis axis : kAllAxes) {
      if ((bits >> static_cast<int>(axis) & 1) != 0) axes = axes.with(axis);
    }
    if (name_of(axes) == plain) return axes;
  }
  TESSERA_CHECK(false, "no group is called '{}'", name);
}

}  // namespace

std::string link_name(const Cluster& cluster, int level) {
  if (cluster.levels.empty()) return "-";
  const size_t last = cluster.levels.size() - 1;
  return cluster.levels[std::min(static_cast<size_t>(std::max(level, 0)), last)].name;
}

int level_of_group(const Cluster& cluster, const Mesh& mesh, int rank, std::string_view group) {
  const std::vector<int> members = mesh.peers(rank, axes_named(group));
  const auto [first, last] = std::minmax_element(members.begin(), members.end());
  for (size_t level = 0; level < cluster.levels.size(); ++level) {
    const int64_t devices = cluster.levels[level].devices;
    if (devices == 0 || *first / devices == *last / devices) return static_cast<int>(level);
  }
  return static_cast<int>(cluster.levels.size()) - 1;
}

}  // namespace tessera
