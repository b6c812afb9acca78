#include "cost/step/collective_time.h"

#include <algorithm>

#include "base/rounding.h"
#include "cost/step/to_double.h"

namespace tessera {
namespace {

int log2_ceil(int64_t value) {
  int bits = 0;
  while ((int64_t{1} << bits) < value) ++bits;
  return bits;
}

// Devices that one group of the level joins.
int64_t size_of(const Cluster& cluster, const LinkLevel& level) {
  return level.devices == 0 ? std::max<int64_t>(cluster.devices, 1) : level.devices;
}

// Ranks of a group whose adapters it has to itself. A group of whole nodes has all of them, and a
// rank alone in its node has its own.
double adapters_of(const Cluster& cluster, const LinkLevel& level, int64_t within) {
  if (within == 1 || within >= size_of(cluster, level)) return to_double(within);
  return std::max(1.0, level.shared_adapters.value * to_double(within));
}

// The share of the bytes that go round in a ring of n.
double ring_share(int64_t ranks) { return to_double(ranks - 1) / to_double(ranks); }

// Two trees carry half of the bytes each, up and down. Between two nodes one of them goes up and
// the other down in each direction, so that a link carries the bytes once and not twice.
double tree_wire_s(const GroupLinks& links, double bytes) {
  if (links.inside == 0 || links.outer != 2) return 2 * bytes / links.bandwidth;
  return std::max(bytes / links.bandwidth, 2 * bytes / links.inside);
}

}  // namespace

int64_t ranks_within(const Cluster& cluster, const LinkLevel& level, const RankGroup& group) {
  const int64_t devices = size_of(cluster, level);
  if (devices >= cluster.devices) return group.ranks;
  return std::min(group.ranks, std::max<int64_t>(1, devices / group.stride));
}

double link_rate(const Cluster& cluster, const LinkLevel& level) {
  const double rate = level.bandwidth.value * level.efficiency.value / level.oversubscription.value;
  if (level.shape != LinkShape::kShared) return rate;
  return rate / to_double(std::min(size_of(cluster, level), cluster.devices));
}

GroupLinks links_of(const Cluster& cluster, const RankGroup& group) {
  GroupLinks links;
  if (cluster.levels.empty() || group.ranks <= 1) return links;
  int64_t islands = group.ranks;  // parts of the group that the levels so far leave apart
  double exits = 1;               // ranks of an island that share the way out of it
  for (size_t i = 0; i < cluster.levels.size() && islands > 1; ++i) {
    const LinkLevel& level = cluster.levels[i];
    const int64_t within = ranks_within(cluster, level, group);
    const int64_t left = ceil_div(group.ranks, within);
    if (i == 0) links.inner = within;
    if (left == islands) continue;  // nobody meets at this level
    const double share = link_rate(cluster, level) * exits;
    links.inside = links.bandwidth;
    links.bandwidth = links.bandwidth == 0 ? share : std::min(links.bandwidth, share);
    links.round_s += level.latency_s.value * to_double(islands - left);
    if (links.hop_in_s == 0) links.hop_in_s = level.latency_s.value;
    links.hop_out_s = level.latency_s.value;
    links.level = static_cast<int>(i);
    links.in_network = level.in_network_sums && left == 1 && i == 0;
    islands = left;
    exits = adapters_of(cluster, level, within);
  }
  links.outer = ceil_div(group.ranks, links.inner);
  return links;
}

double all_reduce_s(const Cluster& cluster, const RankGroup& group, double bytes) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  return all_reduce_s(cluster, links_of(cluster, group), group.ranks, bytes);
}

double all_reduce_s(const Cluster& cluster, const GroupLinks& links, int64_t ranks, double bytes) {
  if (ranks <= 1 || bytes <= 0) return 0;
  const double launch = cluster.device.launch_s.value;
  if (links.in_network) return bytes / links.bandwidth + 2 * links.hop_in_s + launch;
  const double ring = 2 * ring_share(ranks) * bytes / links.bandwidth + 2 * links.round_s;
  const double climb = links.outer > 1 ? to_double(links.inner - 1) * links.hop_in_s +
                                             log2_ceil(links.outer) * links.hop_out_s
                                       : log2_ceil(links.inner) * links.hop_in_s;
  const double tree = tree_wire_s(links, bytes) + 2 * climb;
  return std::min(ring, tree) + launch;
}

double least_all_reduce_wire_s(const GroupLinks& links, int64_t ranks, double bytes) {
  if (ranks <= 1 || links.bandwidth <= 0) return 0;
  if (links.in_network) return bytes / links.bandwidth;
  return std::min(2 * ring_share(ranks) * bytes / links.bandwidth, tree_wire_s(links, bytes));
}

double all_gather_s(const Cluster& cluster, const RankGroup& group, double bytes) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  return all_gather_s(cluster, links_of(cluster, group), group.ranks, bytes);
}

double all_gather_s(const Cluster& cluster, const GroupLinks& links, int64_t ranks, double bytes) {
  if (ranks <= 1 || bytes <= 0) return 0;
  return ring_share(ranks) * bytes / links.bandwidth + links.round_s +
         cluster.device.launch_s.value;
}

double all_gather_wire_s(const GroupLinks& links, int64_t ranks, double bytes) {
  if (ranks <= 1 || links.bandwidth <= 0) return 0;
  return ring_share(ranks) * bytes / links.bandwidth;
}

double reduce_scatter_s(const Cluster& cluster, const RankGroup& group, double bytes) {
  return all_gather_s(cluster, group, bytes);
}

double all_to_all_s(const Cluster& cluster, const RankGroup& group, double bytes, double once) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  // Pairs that meet at a level carry their part there; levels work side by side.
  double slowest = 0, latency = 0;
  int64_t reached = 1;
  for (size_t i = 0; i < cluster.levels.size() && reached < group.ranks; ++i) {
    const LinkLevel& level = cluster.levels[i];
    const int64_t within = ranks_within(cluster, level, group);
    if (within <= reached) continue;
    // What leaves for anyone beyond `reached` passes this level's links.
    const double beyond = to_double(group.ranks - reached) / to_double(group.ranks) * bytes;
    const double factor = level.shape == LinkShape::kTorus ? 2.0 : 1.0;  // several hops a message
    slowest = std::max(slowest, factor * (i == 0 ? 1 : once) * beyond / link_rate(cluster, level));
    latency += to_double(within - reached) * level.latency_s.value;
    reached = within;
  }
  return slowest + latency + cluster.device.launch_s.value;
}

double shift_s(const Cluster& cluster, const RankGroup& group, double bytes) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  const GroupLinks links = links_of(cluster, group);
  const LinkLevel& level = cluster.levels[static_cast<size_t>(links.level)];
  return bytes / std::min(links.bandwidth, link_rate(cluster, level)) + links.hop_out_s;
}

SendTime send_time(const Cluster& cluster, int64_t from, int64_t to, double bytes) {
  if (bytes <= 0 || cluster.levels.empty() || from == to) return {};
  size_t i = 0;
  while (i + 1 < cluster.levels.size()) {
    const int64_t devices = size_of(cluster, cluster.levels[i]);
    if (from / devices == to / devices) break;
    ++i;
  }
  const LinkLevel& level = cluster.levels[i];
  return {level.latency_s.value, bytes / link_rate(cluster, level), static_cast<int>(i)};
}

double slowest_send_s(const Cluster& cluster, const RankGroup& group, double bytes) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  double slowest = 0;
  int64_t joined = 1;
  for (size_t i = 0; i < cluster.levels.size() && joined < group.ranks; ++i) {
    const LinkLevel& level = cluster.levels[i];
    const int64_t within = ranks_within(cluster, level, group);
    if (within <= joined) continue;
    slowest = std::max(slowest, bytes / link_rate(cluster, level) + level.latency_s.value);
    joined = within;
  }
  return slowest;
}

double mean_send_s(const Cluster& cluster, const RankGroup& group, double bytes) {
  if (group.ranks <= 1) return 0;
  const int64_t hops = group.ranks - 1;
  double sum = 0;
  int64_t apart = hops;  // hops that no level so far spans
  for (const LinkLevel& level : cluster.levels) {
    const int64_t within = ranks_within(cluster, level, group);
    const int64_t crossing = ceil_div(group.ranks, within) - 1;
    if (crossing >= apart) continue;
    sum +=
        to_double(apart - crossing) * (bytes / link_rate(cluster, level) + level.latency_s.value);
    apart = crossing;
  }
  return bytes <= 0 ? 0 : sum / to_double(hops);
}

}  // namespace tessera
