// What a rank may use of a device, and what a run takes from the cluster it is planned for.
#pragma once

#include <cstdint>

#include "cost/hardware/cluster.h"
#include "spec/run_spec.h"

namespace tessera {

// What tensors may have of a device's memory: all of it but what is reserved.
int64_t usable_bytes(const Cluster& cluster);

// cluster.memory_gib where the run says it, else usable_bytes().
int64_t memory_limit(const RunSpec& spec, const Cluster& cluster);
// For a run without a cluster: cluster.memory_gib, which the caller has filled in.
int64_t memory_limit(const RunSpec& spec);

// Where a run on such devices computes.
TrainDevice train_device(DeviceKind kind);

// The run's threads and device as the cluster has them.
void use_cluster_defaults(RunSpec& spec, const Cluster& cluster);

}  // namespace tessera
