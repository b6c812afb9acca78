#include "spec/run_file/lanes.h"

#include <bit>

#include "base/error.h"
#include "spec/nearby.h"
#include "spec/run_file/asynchronous.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

int64_t floor_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)));
}
int64_t ceil_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

}  // namespace

int64_t distinct_replicas(const RunSpec& spec) {
  return spec.parallel.replicas() / spec.train.redundancy;
}

int ReplicaBatch::sums() const {
  if (!has_lanes()) return 1;
  const auto count = static_cast<uint64_t>(lanes.count);
  return static_cast<int>(lanes_overlap ? count : static_cast<uint64_t>(std::bit_width(count)));
}

int ReplicaBatch::sum_of(int64_t lane) const {
  return lanes_overlap ? static_cast<int>(lane) : std::popcount(static_cast<uint64_t>(lane));
}

ReplicaBatch replica_batch(const RunSpec& spec, int64_t replica) {
  ReplicaBatch batch;
  batch.micro_batches = accumulation(spec);
  const int64_t replicas = distinct_replicas(spec);
  if (spec.train.lanes == 0) {
    batch.first = replica;
    batch.stride = replicas;
    return batch;
  }
  batch.per_lane = spec.train.global_batch / (spec.train.micro_batch * spec.train.lanes);
  batch.lanes = tree_share(spec.train.lanes, replicas, replica % replicas);
  batch.padding = batch.micro_batches - batch.lanes.count * batch.per_lane;
  batch.first = batch.lanes.first * batch.per_lane;
  return batch;
}

void check_lanes(const RunSpec& spec) {
  const int64_t lanes = spec.train.lanes;
  const ParallelSpec& parallel = spec.parallel;
  const int64_t redundancy = spec.train.redundancy;
  require_config(redundancy == 1 || lanes > 0,
                 "train.redundancy = {} compares sums of lanes, but train.lanes is 0; set lanes to "
                 "a power of two, 1 or more",
                 redundancy);
  require_config(parallel.dp % redundancy == 0,
                 "train.redundancy = {}: dp = {} is not that many equal groups; use dp = {}",
                 redundancy, parallel.dp, either(nearby_multiples(parallel.dp, redundancy)));
  if (lanes == 0) return;
  const int64_t replicas = distinct_replicas(spec);
  const int64_t near = floor_of_two(lanes);
  require_config(near == lanes, "train.lanes = {} is no power of two; use lanes = {}", lanes,
                 either({near, 2 * near}));
  require_config(replicas <= lanes,
                 "train.lanes = {} but there are {} replicas (dp * fsdp), of which each needs a "
                 "lane; use lanes = {}, or fewer replicas",
                 lanes, replicas, ceil_of_two(replicas));
  require_config(parallel.dp == 1 || floor_of_two(parallel.fsdp) == parallel.fsdp,
                 "train.lanes = {}: with dp = {} every fsdp group owns a subtree of the lanes, but "
                 "fsdp = {} is no power of two; use fsdp = {}, or dp = 1",
                 lanes, parallel.dp, parallel.fsdp, floor_of_two(parallel.fsdp));
  require_config(parallel.cp == 1,
                 "train.lanes = {}: sums over cp = {} are not in the order of lanes; use cp = 1, "
                 "or lanes = 0",
                 lanes, parallel.cp);
  require_config(spec.model.experts == 0,
                 "train.lanes = {}: the counts of routers are not added up in the order of lanes; "
                 "use a model without experts, or lanes = 0",
                 lanes);
  require_config(
      !is_asynchronous(parallel),
      "train.lanes = {}: with schedule = \"{}\" weights change within a step, before its "
      "lanes are complete; use schedule = \"1f1b\", or lanes = 0",
      lanes, parallel.schedule.text());
  require_config(spec.train.device != TrainDevice::kCuda,
                 "train.lanes = {}: sums on a GPU are not in the order of lanes; use device = "
                 "\"cpu\", or lanes = 0, which goes on with the same samples but other bits",
                 lanes);
  require_config(parallel.grad_reduce != GradReduce::kMicroBatch,
                 "parallel.grad_reduce = \"micro_batch\": with train.lanes = {} gradients are "
                 "summed over ranks when their lanes are complete; use grad_reduce = \"step\", or "
                 "lanes = 0",
                 lanes);
}

}  // namespace tessera
