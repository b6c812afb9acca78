// What is known of a device or a cluster that no time is made of: when it came, what it is built
// from. The table [facts] of its file in the catalogue; facts are never taken over from the entry
// that a file extends.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "cost/hardware/constant.h"
#include "spec/file_reader.h"

namespace tessera {

// 0: not known.
struct DeviceFacts {
  Constant year;          // in which it was presented
  Constant tensor_cores;  // units for products of matrices, whatever their maker calls them
  Constant l1_bytes;      // of one multiprocessor, with its shared memory
  Constant l2_bytes;
};
struct ClusterFacts {
  Constant rack_devices;
  Constant rails;                      // networks side by side: one for each adapter of a node
  Constant torus_x, torus_y, torus_z;  // of all devices of its file
};

struct DeviceFactKey {
  std::string_view name;
  Constant DeviceFacts::*field;
};
inline constexpr std::array kDeviceFactKeys = {
    DeviceFactKey{"year", &DeviceFacts::year},
    DeviceFactKey{"tensor_cores", &DeviceFacts::tensor_cores},
    DeviceFactKey{"l1_bytes", &DeviceFacts::l1_bytes},
    DeviceFactKey{"l2_bytes", &DeviceFacts::l2_bytes},
};
struct ClusterFactKey {
  std::string_view name;
  Constant ClusterFacts::*field;
};
inline constexpr std::array kClusterFactKeys = {
    ClusterFactKey{"rack_devices", &ClusterFacts::rack_devices},
    ClusterFactKey{"rails", &ClusterFacts::rails},
    ClusterFactKey{"torus_x", &ClusterFacts::torus_x},
    ClusterFactKey{"torus_y", &ClusterFacts::torus_y},
    ClusterFactKey{"torus_z", &ClusterFacts::torus_z},
};

// By the name of the entry, or of a family of sizes ("h100-16384"); none are known of what has no
// entry. ConfigError for a mistake in the table.
DeviceFacts facts_of_device(const std::string& name, const FileReader& read = nullptr);
ClusterFacts facts_of_cluster(const std::string& name, const FileReader& read = nullptr);

}  // namespace tessera
