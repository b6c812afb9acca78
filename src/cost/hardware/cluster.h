// Devices and the links between them, as levels: a group of `devices` consecutive devices is joined
// at a level, level 0 the innermost. Ranks are laid out in order: rank r is device r.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost/hardware/device.h"
#include "cost/hardware/measured_machine.h"

namespace tessera {

enum class LinkShape : uint8_t {
  kSwitch,  // any pair at full rate (NVSwitch, a fat tree)
  kTorus,   // neighbours only; `bandwidth` is the sum over the device's links of one direction
  kShared,  // one bus: `bandwidth` is that of all devices of the level together
};
std::string_view name_of(LinkShape shape);  // "switch", "torus", "shared"

struct LinkLevel {
  std::string name;     // "nvlink", "infiniband"
  int64_t devices = 0;  // that one group of this level joins; 0: all of the cluster
  LinkShape shape = LinkShape::kSwitch;
  Constant bandwidth;            // bytes/s, per device and direction, into this level
  Constant latency_s;            // of one message between two devices
  Constant efficiency;           // of a very large collective, 0 to 1
  Constant oversubscription;     // 1: none; 7: when all talk across it, each has a seventh
  bool in_network_sums = false;  // the switch adds (SHARP, NVLS)
  // The share of its ways out that a group can use where it shares a node with others: they choose
  // theirs without knowing of each other, and meet on some while others idle.
  Constant shared_adapters = {0.5, Provenance::kFitted,
                              "tp 2 and 4 of the vTrain runs (docs/accuracy.md)"};
};

// The most devices a cluster may have: sizes still multiply without overflow.
inline constexpr int64_t kMaxDevices = 1 << 24;

struct Cluster {
  std::string name;
  DeviceSpec device;
  int64_t devices = 1;
  std::vector<LinkLevel> levels;  // innermost first; empty: a single device
  Constant usd_per_device_hour;   // 0: unknown
  Constant storage_bandwidth;     // bytes/s that a device writes when all do; 0: unknown
  MeasuredMachine measured = {};  // of our own Programs; empty: the machine was not calibrated

  // Devices of a node: of the innermost level.
  [[nodiscard]] int64_t node_devices() const {
    return levels.empty() || levels.front().devices == 0 ? devices : levels.front().devices;
  }
};

// Throws ConfigError that names the field, the value and what it must be.
void check(const DeviceSpec& device);
void check(const Cluster& cluster);

}  // namespace tessera
