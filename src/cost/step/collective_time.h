// Time of communication on the links of a cluster, in closed form. A group is described by its size
// and stride: ranks r, r + stride, ... of consecutive devices; all groups of an axis work at once
// and share the links fairly.
#pragma once

#include <cstdint>

#include "cost/hardware/cluster.h"

namespace tessera {

struct RankGroup {
  int64_t ranks = 1;
  int64_t stride = 1;  // devices between neighbours
};

// What a ring through a group meets: the narrowest bandwidth of one rank's share, and the latency
// of going round once.
struct GroupLinks {
  double bandwidth = 0;  // bytes/s
  double inside = 0;     // bytes/s on the levels below the outermost one used; 0: there is none
  double round_s = 0;    // of ranks - 1 messages, one after the other
  double hop_in_s = 0;   // of a message inside the innermost level
  double hop_out_s = 0;  // of a message on the outermost level used
  int64_t inner = 1;     // ranks of the group that share an innermost level
  int64_t outer = 1;     // innermost levels that the group spans
  int level = 0;         // the outermost level used
  bool in_network = false;
};

GroupLinks links_of(const Cluster& cluster, const RankGroup& group);

// Ranks of the group that lie in one group of the level's devices.
int64_t ranks_within(const Cluster& cluster, const LinkLevel& level, const RankGroup& group);
// Bytes/s of a device, in one direction, while all of them talk.
double link_rate(const Cluster& cluster, const LinkLevel& level);

// `bytes` is what a rank holds before an all-reduce and after an all-gather, before a
// reduce-scatter, and in all that it sends in an all-to-all (its own part included).
double all_reduce_s(const Cluster& cluster, const RankGroup& group, double bytes);
double all_gather_s(const Cluster& cluster, const RankGroup& group, double bytes);
// The same over links that are known.
double all_reduce_s(const Cluster& cluster, const GroupLinks& links, int64_t ranks, double bytes);
double all_gather_s(const Cluster& cluster, const GroupLinks& links, int64_t ranks, double bytes);
// The least of those times that bytes over bandwidth take on the busiest link.
double least_all_reduce_wire_s(const GroupLinks& links, int64_t ranks, double bytes);
double all_gather_wire_s(const GroupLinks& links, int64_t ranks, double bytes);
double reduce_scatter_s(const Cluster& cluster, const RankGroup& group, double bytes);
// `once` of an all-to-all's bytes need to leave the innermost level: less than 1 where what goes to
// several ranks of another node travels there once.
double all_to_all_s(const Cluster& cluster, const RankGroup& group, double bytes, double once = 1);

// Every rank of a ring sends to the next at once; whoever leaves a node has one adapter for it.
double shift_s(const Cluster& cluster, const RankGroup& group, double bytes);

// A message from one device to another, over the innermost level that joins them.
struct SendTime {
  double latency_s = 0;
  double wire_s = 0;  // bytes over bandwidth
  int level = 0;
};
SendTime send_time(const Cluster& cluster, int64_t from, int64_t to, double bytes);
// The mean over the neighbours of a group, some of which are further apart than others.
double mean_send_s(const Cluster& cluster, const RankGroup& group, double bytes);
// Between those that are furthest apart.
double slowest_send_s(const Cluster& cluster, const RankGroup& group, double bytes);

}  // namespace tessera
