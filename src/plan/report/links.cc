#include "plan/report/links.h"

#include <algorithm>
#include <map>

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

int level_between(const Cluster& cluster, int one, int other) {
  for (size_t level = 0; level < cluster.levels.size(); ++level) {
    const int64_t devices = cluster.levels[level].devices;
    if (devices == 0 || one / devices == other / devices) return static_cast<int>(level);
  }
  return static_cast<int>(cluster.levels.size()) - 1;
}

// How many of the messages of a micro-batch that `rank` sends go over each level of links.
std::map<int, int64_t> messages_by_level(const Cluster& cluster, const Mesh& mesh,
                                         const PipelineSchedule& schedule, int rank) {
  const std::vector<int> peers = mesh.peers(rank, AxisSet(Axis::kPp));
  const auto holder = [&](size_t stage) {
    return peers[static_cast<size_t>(schedule.rank_of_stage[stage])];
  };
  std::map<int, int64_t> messages;
  for (size_t stage = 1; stage < schedule.rank_of_stage.size(); ++stage) {
    const int before = holder(stage - 1), after = holder(stage);
    // Activations one way, gradients back.
    const bool sends = before != after && (before == rank || after == rank);
    if (sends) ++messages[level_between(cluster, before, after)];
  }
  return messages;
}

}  // namespace

std::vector<LinkTraffic> by_links(const Cluster& cluster, const Mesh& mesh,
                                  const PipelineSchedule& schedule, int rank,
                                  const Traffic& traffic) {
  const bool message = traffic.op == "send" || traffic.op == "receive";
  std::map<int, int64_t> messages;
  if (message && traffic.group == name_of(AxisSet(Axis::kPp))) {
    messages = messages_by_level(cluster, mesh, schedule, rank);
  }
  int64_t all = 0;
  for (const auto& [level, count] : messages) all += count;
  if (all == 0 || traffic.calls % all != 0 || traffic.bytes_sent % all != 0) {
    return {
        {level_of_group(cluster, mesh, rank, traffic.group), traffic.calls, traffic.bytes_sent}};
  }
  std::vector<LinkTraffic> parts;
  for (const auto& [level, count] : messages) {
    parts.push_back({level, traffic.calls / all * count, traffic.bytes_sent / all * count});
  }
  return parts;
}

std::string link_name(const Cluster& cluster, int level) {
  if (cluster.levels.empty()) return "-";
  const size_t last = cluster.levels.size() - 1;
  return cluster.levels[std::min(static_cast<size_t>(std::max(level, 0)), last)].name;
}

int level_of_group(const Cluster& cluster, const Mesh& mesh, int rank, std::string_view group) {
  const std::vector<int> members = mesh.peers(rank, axes_named(group));
  const auto [first, last] = std::minmax_element(members.begin(), members.end());
  return level_between(cluster, *first, *last);
}

}  // namespace tessera
