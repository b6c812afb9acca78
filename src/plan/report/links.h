// Which links of a cluster the traffic of a rank crosses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compile/pipeline/schedule/schedule.h"
#include "compile/program/program.h"
#include "cost/hardware/cluster.h"
#include "graph/mesh.h"

namespace tessera {

// "nvlink"; "-" where the cluster has none.
std::string link_name(const Cluster& cluster, int level);

// What a rank sends over one level of links.
struct LinkTraffic {
  int level = 0;
  int64_t calls = 0, bytes_sent = 0;
};
// `traffic` of `rank` by the links that it crosses, innermost first. A message between stages goes
// to the rank of the next or the last stage alone, which another link may join.
std::vector<LinkTraffic> by_links(const Cluster& cluster, const Mesh& mesh,
                                  const PipelineSchedule& schedule, int rank,
                                  const Traffic& traffic);

// The innermost level of links that joins all ranks of the group around `rank`. `group` as traffic
// names it.
int level_of_group(const Cluster& cluster, const Mesh& mesh, int rank, std::string_view group);

}  // namespace tessera
