#include "plan/estimate_run.h"

#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text/units.h"
#include "cost/hardware/catalogue.h"
#include "sim/schedule/step_simulator.h"

namespace tessera {
namespace {

void use_fp8(const RunSpec& spec, const DeviceSpec& device, PrecisionChoice& precision) {
  require_config(device.peak(MathType::kF8) > 0,
                 "{} has no arithmetic of 8 bits: use --dtype bf16, or a device that has it, such "
                 "as h100",
                 device.name);
  require_config(spec.train.dtype == DType::kBF16,
                 "fp8 is for the products of blocks whose rest is bf16, but train.dtype is {}",
                 name_of(spec.train.dtype));
  precision.products = MathType::kF8;
}

}  // namespace

RunStrategy priced_strategy(const RunSpec& spec, const Cluster& cluster, const Engine& engine,
                            BlockProducts products) {
  const int64_t world = spec.parallel.world();
  require_config(
      world <= cluster.devices,
      "the mesh has {} ranks but cluster {} has {} devices; use smaller dp, fsdp, tp, cp "
      "or pp, or a cluster of more devices (h100-64 is 64 of h100)",
      world, cluster.name, cluster.devices);
  RunStrategy run = strategy_of_run(
      spec, world == cluster.devices ? cluster : with_devices(cluster, world), engine);
  // A device without arithmetic of 8 bits computes what it trains in 16.
  const bool trained = spec.train.fp8.on() && spec.train.dtype == DType::kBF16 &&
                       cluster.device.peak(MathType::kF8) > 0;
  if (trained || products == BlockProducts::kFp8) {
    use_fp8(spec, cluster.device, run.workload.precision);
  }
  const std::string wrong = why_impossible(run.workload, run.strategy);
  require_config(wrong.empty(), "{}", wrong);
  return run;
}

RunEstimate estimate_run(const RunSpec& spec, const Cluster& cluster, const Engine& engine,
                         BlockProducts products, ScheduleTapes* tapes) {
  RunEstimate result;
  result.run = priced_strategy(spec, cluster, engine, products);
  result.estimate =
      StepSimulator(result.run.workload, tapes).simulate(result.run.strategy).estimate;
  return result;
}

std::vector<Guess> default_constants(const Cluster& cluster) {
  std::vector<Guess> guesses;
  const DeviceSpec& d = cluster.device;
  const auto add = [&](std::string what, const Constant& constant, double unit,
                       std::string_view unit_name) {
    if (constant.provenance != Provenance::kDefault || constant.value == 0) return;
    guesses.push_back({std::move(what), fmt::format("{:g}{} ({})", constant.value / unit, unit_name,
                                                    constant.source)});
  };
  const auto of_device = [&](std::string_view what) {
    return fmt::format("{} of {}", what, d.name);
  };
  add(of_device("reserved memory"), d.reserved_bytes, kGibibyte, " GiB");
  add(of_device("memory"), d.memory_bytes, kGibibyte, " GiB");
  add(of_device("share of memory bandwidth"), d.memory_efficiency, 0.01, " %");
  add(of_device("attention's share of the peak"), d.attention_efficiency, 0.01, " %");
  add(of_device("time of a launch"), d.launch_s, 1e-6, " us");
  for (const LinkLevel& level : cluster.levels) {
    add("bandwidth of " + level.name, level.bandwidth, 1e9, " GB/s");
    add("latency of " + level.name, level.latency_s, 1e-6, " us");
    add("efficiency of " + level.name, level.efficiency, 0.01, " %");
  }
  return guesses;
}

}  // namespace tessera
