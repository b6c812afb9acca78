// Clusters that differ in their number of devices alone, by the name of one of them.
#pragma once

#include <cstdint>
#include <string>

#include "cost/hardware/cluster.h"
#include "spec/file_reader.h"

namespace tessera {

// The most devices of the family: a host of cards has no network.
int64_t most_devices(const std::string& cluster);

// "h100-512" with 96 devices is "h100-96", "8xrtx-4090" with 4 is "4xrtx-4090"; a file stays what
// it is.
std::string name_of_size(const std::string& cluster, int64_t devices);
Cluster cluster_of_size(const std::string& cluster, int64_t devices, const FileReader& read);

}  // namespace tessera
