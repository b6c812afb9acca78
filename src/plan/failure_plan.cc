#include "plan/failure_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/text/quantity.h"
#include "base/text/text.h"

namespace tessera {
namespace {

// 419 failures in 54 days on 16,384 GPUs are one in 50,700 hours of a GPU ("The Llama 3 Herd of
// Models", table 5).
constexpr double kMtbfDevice = 50'000 * 3600.0;
constexpr double kRestart = 300;
// Bytes/s: a copy into memory of the host, and what a node writes when all of them do.
constexpr double kCopyOfGpu = 10e9, kCopyOfCpu = 3e9, kStorageOfNode = 1e9;
constexpr double kLongest = 1e12;  // seconds: 30,000 years

std::string seconds_text(double seconds) { return text_of({seconds, Unit::kSeconds}); }

double seconds_of(std::string_view flag, const std::string& text, double least) {
  const double seconds = parse_quantity(Unit::kSeconds, text, flag);
  require_config(seconds >= least && seconds <= kLongest,
                 "{} is {}: expected a time of at least {} and at most 30,000 years", flag,
                 in_quotes(text), seconds_text(least));
  return seconds;
}

double storage_rate(const Cluster& cluster) {
  if (cluster.storage_bandwidth.value > 0) {
    return cluster.storage_bandwidth.value * static_cast<double>(cluster.devices);
  }
  const double nodes = std::ceil(static_cast<double>(cluster.devices) /
                                 static_cast<double>(std::max<int64_t>(1, cluster.node_devices())));
  return kStorageOfNode * nodes;
}

// Every rank copies its share into memory, or writes it, while steps wait; the rest of the time
// that storage takes is beside them.
void price_save(const RunSpec& spec, const Cluster& cluster, FailurePlan& plan,
                std::vector<Guess>& guesses) {
  const auto bytes = static_cast<double>(plan.checkpoint_bytes);
  const double write = bytes / storage_rate(cluster);
  const bool known = cluster.storage_bandwidth.value > 0;
  const std::string rate =
      known ? text_of({cluster.storage_bandwidth.value, Unit::kBytesPerSecond}) + " per device"
            : text_of({kStorageOfNode, Unit::kBytesPerSecond}) + " per node";
  const std::string all = text_of({bytes, Unit::kBytes});
  if (!spec.checkpoint.async) {
    plan.model.stall = write;
    if (known) return;
    guesses.push_back({"time of a save", fmt::format("{} for {} at {} of storage (--save)",
                                                     seconds_text(write), all, rate)});
    return;
  }
  const double copy = cluster.device.kind == DeviceKind::kCpu ? kCopyOfCpu : kCopyOfGpu;
  plan.model.stall = bytes / static_cast<double>(cluster.devices) / copy;
  plan.model.write = write;
  guesses.push_back(
      {"time of a save",
       fmt::format("steps wait {} for the copy at {} per device, then {} are written beside them "
                   "in {} at {} of storage (--save)",
                   seconds_text(plan.model.stall), text_of({copy, Unit::kBytesPerSecond}), all,
                   seconds_text(write), rate)});
}

}  // namespace

// As the store has them (docs/checkpoints.md): beside bf16 weights the 16 bits that they lack,
// beside f16 weights an f32 copy.
int64_t checkpoint_bytes(const RunSpec& spec, int64_t num_parameters) {
  const DType dtype = spec.train.dtype;
  int64_t bytes = size_bytes(dtype) + spec.optimizer.states() * size_bytes(accumulate_type(dtype));
  if (dtype == DType::kBF16) bytes += size_bytes(dtype);
  if (dtype == DType::kF16) bytes += size_bytes(accumulate_type(dtype));
  return num_parameters * bytes;
}

FailurePlan price_failures(const RunSpec& spec, int64_t num_parameters, const Cluster& cluster,
                           const FailureFlags& flags, std::vector<Guess>& guesses) {
  FailurePlan plan;
  plan.checkpoint_bytes = checkpoint_bytes(spec, num_parameters);
  plan.mtbf_device_s = kMtbfDevice;
  if (flags.mtbf_device.empty()) {
    guesses.push_back({"time between failures of a device",
                       "50,000 hours, about what training Llama 3 405B had (--mtbf-device)"});
  } else {
    plan.mtbf_device_s = seconds_of(flags.mtbf_flag, flags.mtbf_device, 1);
  }
  plan.model.mtbf = plan.mtbf_device_s / static_cast<double>(cluster.devices);
  if (flags.save.empty()) {
    price_save(spec, cluster, plan, guesses);
  } else {
    plan.model.stall = seconds_of("--save", flags.save, 0);
  }
  plan.model.restart = kRestart;
  if (flags.restart.empty()) {
    guesses.push_back({"time of a restart", "5 minutes (--restart)"});
  } else {
    plan.model.restart = seconds_of("--restart", flags.restart, 0);
  }
  return plan;
}

FailurePlan plan_failures(const RunSpec& spec, int64_t num_parameters, const Cluster& cluster,
                          double step_s, const FailureFlags& flags, std::vector<Guess>& guesses) {
  FailurePlan plan = price_failures(spec, num_parameters, cluster, flags, guesses);
  // Saves come after whole steps, and not before the one before is written.
  const double interval = std::max(best_interval(plan.model), plan.model.write);
  plan.every = std::max<int64_t>(1, static_cast<int64_t>(std::min(interval / step_s, 1e15) + 0.5));
  plan.interval_s = static_cast<double>(plan.every) * step_s;
  plan.goodput = goodput(plan.model, plan.interval_s);
  return plan;
}

}  // namespace tessera
