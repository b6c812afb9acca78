// Which links of a cluster the traffic of a rank crosses.
#pragma once

#include <string>
#include <string_view>

#include "cost/hardware/cluster.h"
#include "graph/mesh.h"

namespace tessera {

// "nvlink"; "-" where the cluster has none.
std::string link_name(const Cluster& cluster, int level);

// The innermost level of links that joins all ranks of the group around `rank`. `group` as traffic
// names it.
int level_of_group(const Cluster& cluster, const Mesh& mesh, int rank, std::string_view group);

}  // namespace tessera
