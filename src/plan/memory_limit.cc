#include "plan/memory_limit.h"

#include "base/text/units.h"

namespace tessera {

int64_t usable_bytes(const Cluster& cluster) {
  return static_cast<int64_t>(cluster.device.memory_bytes.value -
                              cluster.device.reserved_bytes.value);
}

int64_t memory_limit(const RunSpec& spec) {
  return static_cast<int64_t>(spec.cluster.memory_gib * kGibibyte);
}

int64_t memory_limit(const RunSpec& spec, const Cluster& cluster) {
  return spec.cluster.memory_gib > 0 ? memory_limit(spec) : usable_bytes(cluster);
}

TrainDevice train_device(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? TrainDevice::kCpu : TrainDevice::kCuda;
}

void use_cluster_defaults(RunSpec& spec, const Cluster& cluster) {
  spec.train.device = train_device(cluster.device.kind);
  if (spec.train.threads == 0) spec.train.threads = 1;
}

}  // namespace tessera
