// Devices and clusters by name. The entries are TOML files under catalogue/, compiled in; a user's
// own file has the same keys. docs/clusters.md describes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost/hardware/cluster.h"
#include "spec/file_reader.h"

namespace tessera {

std::vector<std::string_view> device_names();
std::vector<std::string_view> cluster_names();

// `name` is an entry, the cluster of which it is the device ("a100"), or a path that ends in .toml.
// Unknown names throw ConfigError with the nearest known one.
DeviceSpec find_device(const std::string& name, const FileReader& read = nullptr);

// "dgx-h100" has as many devices as its file says; "h100-16384" is the cluster of H100 with 16,384
// devices; "8xrtx-4090" is a host with eight cards of that device on PCIe. Otherwise as
// find_device.
Cluster find_cluster(const std::string& name, const FileReader& read = nullptr);

Cluster with_devices(Cluster cluster, int64_t devices);

// From TOML text; `file_name` is where errors point. `extends` names other entries.
DeviceSpec parse_device(std::string_view text, const std::string& file_name,
                        const FileReader& read = nullptr);
Cluster parse_cluster(std::string_view text, const std::string& file_name,
                      const FileReader& read = nullptr);

}  // namespace tessera
