#include "cost/hardware/device.h"

#include <array>

#include "base/error.h"
#include "cost/hardware/cluster.h"

namespace tessera {
namespace {

void require_within(const std::string& what, const Constant& constant, double least, double most) {
  require_config(constant.value >= least && constant.value <= most,
                 "{} must be from {:g} to {:g}, got {:g}", what, least, most, constant.value);
}

}  // namespace

std::string_view name_of(Provenance provenance) {
  constexpr std::array<std::string_view, kAllProvenances.size()> kNames = {
      "vendor", "measured", "fitted", "default", "counted", "borrowed"};
  return kNames.at(static_cast<size_t>(provenance));
}

std::string_view name_of(MathType type) {
  constexpr std::array<std::string_view, kNumMathTypes> kNames = {"f32", "tf32", "f16", "f8", "f4"};
  return kNames.at(static_cast<size_t>(type));
}

std::string_view name_of(DeviceKind kind) {
  constexpr std::array<std::string_view, kNumDeviceKinds> kNames = {"cpu", "gpu", "tpu"};
  return kNames.at(static_cast<size_t>(kind));
}

std::string_view name_of(LinkShape shape) {
  constexpr std::array<std::string_view, 3> kNames = {"switch", "torus", "shared"};
  return kNames.at(static_cast<size_t>(shape));
}

void check(const DeviceSpec& device) {
  const std::string name = "device " + device.name + ": ";
  bool computes = false;
  for (int i = 0; i < kNumMathTypes; ++i) {
    const auto type = static_cast<MathType>(i);
    const auto at = static_cast<size_t>(i);
    const std::string key = fmt::format("{}peak_flops.{}", name, name_of(type));
    require_within(key, device.peak_flops[at], 0, 1e18);
    if (device.peak(type) == 0) continue;
    computes = true;
    require_within(fmt::format("{}product_efficiency.{}", name, name_of(type)),
                   device.product_efficiency[at], 0.01, 1);
  }
  require_config(computes, "{}give at least one peak_flops, such as f16 = 100e12", name);
  require_within(name + "memory_bytes", device.memory_bytes, 1e6, 1e15);
  require_within(name + "reserved_bytes", device.reserved_bytes, 0, device.memory_bytes.value);
  require_within(name + "memory_bandwidth", device.memory_bandwidth, 1e6, 1e17);
  require_within(name + "memory_efficiency", device.memory_efficiency, 0.01, 1);
  require_within(name + "multiprocessors", device.multiprocessors, 1, 1e6);
  require_within(name + "tile_rows", device.tile_rows, 1, 4096);
  require_within(name + "tile_columns", device.tile_columns, 1, 4096);
  require_within(name + "product_fill", device.product_fill, 0, 1e6);
  require_within(name + "wave_share", device.wave_share, 0, 1);
  require_within(name + "misaligned_slowdown", device.misaligned_slowdown, 1, 1000);
  require_within(name + "batched_efficiency", device.batched_efficiency, 0.01, 1);
  require_within(name + "attention_efficiency", device.attention_efficiency, 0.01, 1);
  require_within(name + "attention_backward_efficiency", device.attention_backward_efficiency, 0.01,
                 1);
  require_within(name + "portable_attention_slowdown", device.portable_attention_slowdown, 1, 100);
  require_within(name + "launch_s", device.launch_s, 0, 1);
  require_within(name + "host_op_s", device.host_op_s, 0, 1);
}

void check(const Cluster& cluster) {
  check(cluster.device);
  const std::string name = "cluster " + cluster.name + ": ";
  require_config(cluster.devices >= 1 && cluster.devices <= kMaxDevices,
                 "{}devices must be from 1 to {}, got {}", name, kMaxDevices, cluster.devices);
  require_config(!cluster.levels.empty() || cluster.devices == 1,
                 "{}{} devices need at least one [[levels]] of links between them", name,
                 cluster.devices);
  int64_t inside = 1;
  for (size_t i = 0; i < cluster.levels.size(); ++i) {
    const LinkLevel& level = cluster.levels[i];
    const std::string at = fmt::format("{}level {} ({}): ", name, i, level.name);
    const bool last = i + 1 == cluster.levels.size();
    require_config(level.devices == 0 ? last : level.devices > inside,
                   "{}devices must be more than {}, or 0 (all) at the last level, got {}", at,
                   inside, level.devices);
    require_config(level.devices == 0 || level.devices % inside == 0,
                   "{}devices must be a multiple of {}, the level below, got {}", at, inside,
                   level.devices);
    require_config(!last || level.devices == 0 || level.devices >= cluster.devices,
                   "{}joins {} devices but the cluster has {}: add a level above it", at,
                   level.devices, cluster.devices);
    require_within(at + "bandwidth", level.bandwidth, 1e3, 1e16);
    require_within(at + "latency_s", level.latency_s, 0, 10);
    require_within(at + "efficiency", level.efficiency, 0.01, 1);
    require_within(at + "oversubscription", level.oversubscription, 1, 1000);
    if (level.devices > 0) inside = level.devices;
  }
  check(cluster.measured);
  require_within(name + "usd_per_device_hour", cluster.usd_per_device_hour, 0, 1e6);
  require_within(name + "storage_bandwidth", cluster.storage_bandwidth, 0, 1e16);
}

}  // namespace tessera
