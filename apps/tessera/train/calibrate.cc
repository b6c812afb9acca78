#include "train/machine/calibrate.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/text/text.h"
#include "bench/bench_start.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/machine_facts.h"
#include "cli/other_load.h"
#include "cli/read_text.h"
#include "cli/write_file.h"
#include "cost/hardware/catalogue.h"
#include "cost/hardware/cluster_file.h"
#include "kernels/linear.h"
#include "serve/machine/calibrate_serving.h"
#include "serve/start/replica.h"
#include "tensor/gpu_memory.h"
#include "train/calibrate_command.h"

namespace tessera {
namespace {

// The flag takes these two names alone.
TrainDevice device_of(const CalibrateCommandOptions& options) {
  return choice_named<TrainDevice>(options.device).value_or(TrainDevice::kCpu);
}

std::string command_of(const CalibrateCommandOptions& options) {
  std::string command = "tessera calibrate";
  if (device_of(options) != TrainDevice::kCpu) command += " --device " + options.device;
  if (options.quick) command += " --quick";
  return command;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
}

int64_t memory_of_machine() {
  struct sysinfo info = {};
  sysinfo(&info);
  return static_cast<int64_t>(info.totalram) * static_cast<int64_t>(info.mem_unit);
}

const MeasuredCollective* find_collective(const MeasuredMachine& machine, std::string_view op) {
  for (const MeasuredCollective& collective : machine.collectives) {
    if (collective.op == op) return &collective;
  }
  return nullptr;
}

// "NVIDIA H200" -> "h200": the device of the catalogue all of whose words a GPU's name has, the
// longest one; else an H100's constants stand in, with their provenance.
std::string catalogue_name(const std::string& gpu) {
  const std::string name = lower_case(gpu);
  std::string best;
  for (const std::string_view known : device_names()) {
    bool all = true;
    for (const std::string_view word : split(known, '-')) {
      all = all && name.find(word) != std::string::npos;
    }
    if (all && known.size() > best.size()) best = known;
  }
  return best.empty() ? "h100" : best;
}

// The catalogue's device with what was measured: how much of its peaks this one reaches.
DeviceSpec describe_gpu(const CalibrateResult& result, const cuda::GpuInfo& gpu,
                        const std::string& source) {
  DeviceSpec device = find_device(catalogue_name(gpu.name));
  device.name = gpu.name;
  device.extends = "";
  const auto set = [&](Constant& constant, double value) {
    if (value > 0) constant = {value, Provenance::kMeasured, source};
  };
  set(device.memory_bytes, static_cast<double>(gpu.total_bytes));
  set(device.memory_efficiency, result.rates.bytes_per_s / device.memory_bandwidth.value);
  set(device.multiprocessors, gpu.multiprocessors);
  for (const auto& [type, rate] : {std::pair{MathType::kF32, result.rates.f32_flops_per_s},
                                   std::pair{MathType::kF16, result.rates.bf16_flops_per_s}}) {
    const double peak = device.peak(type);
    if (peak > 0) set(device.product_efficiency[static_cast<size_t>(type)], rate / peak);
  }
  return device;
}

// What closed forms need to know of the machine. One device is one rank on one thread; what was not
// measured is taken over from the catalogue, with its provenance.
DeviceSpec describe_device(const CalibrateResult& result, const std::string& name,
                           const std::string& source, double memory_bytes) {
  DeviceSpec device = find_device("cpu");
  device.name = name;
  device.extends = "";
  const auto measured = [&](double value) {
    return Constant{value, Provenance::kMeasured, source};
  };
  const PeakRates& rates = result.rates;
  const double bf16 = rates.bf16_flops_per_s > 0 ? rates.bf16_flops_per_s : rates.f32_flops_per_s;
  for (const auto& [type, value] :
       {std::pair{MathType::kF32, rates.f32_flops_per_s},
        std::pair{MathType::kTF32, rates.f32_flops_per_s}, std::pair{MathType::kF16, bf16}}) {
    device.peak_flops[static_cast<size_t>(type)] = measured(value);
    device.product_efficiency[static_cast<size_t>(type)] = measured(1);
  }
  device.memory_bytes = measured(memory_bytes);
  device.reserved_bytes.value = std::min(device.reserved_bytes.value, memory_bytes / 8);
  device.memory_bandwidth = measured(rates.bytes_per_s);
  device.memory_efficiency = measured(1);
  device.multiprocessors = measured(1);
  device.launch_s = measured(result.machine.dispatch_s);
  return device;
}

// One GPU: what joins several was not measured.
Cluster describe_one_gpu(CalibrateResult result, const cuda::GpuInfo& gpu,
                         const std::string& source) {
  Cluster cluster;
  cluster.name = gpu.name;
  cluster.devices = 1;
  cluster.device = describe_gpu(result, gpu, source);
  result.machine.source = source;
  cluster.measured = std::move(result.machine);
  return cluster;
}

Cluster describe(CalibrateResult result, const std::string& machine, const std::string& source) {
  Cluster cluster;
  cluster.name = machine;
  cluster.devices = result.machine.cores;
  cluster.device = describe_device(
      result, machine, source,
      static_cast<double>(memory_of_machine()) / static_cast<double>(result.machine.cores));
  if (const MeasuredCollective* gather = find_collective(result.machine, "all_gather")) {
    const auto term = [&](TimeTerm which) {
      return gather->fit.seconds[static_cast<size_t>(which)];
    };
    // Each of the two ranks has half of the bytes to send.
    const double byte_s = term(TimeTerm::kByte) + term(TimeTerm::kByte256K) +
                          term(TimeTerm::kByte2M) + term(TimeTerm::kByte16M);
    LinkLevel level;
    level.name = "memory";
    level.shape = LinkShape::kShared;
    level.bandwidth = {byte_s > 0 ? 0.5 / byte_s : result.rates.bytes_per_s, Provenance::kMeasured,
                       source};
    level.latency_s = {term(TimeTerm::kCall), Provenance::kMeasured, source};
    level.efficiency = {1, Provenance::kMeasured, source};
    level.oversubscription = {1, Provenance::kMeasured, source};
    cluster.levels = {level};
  }
  result.machine.source = source;
  cluster.measured = std::move(result.machine);
  return cluster;
}

// The same collectives between processes, measured as `tessera bench comm` does.
void add_processes(bool quick, const Environment& environment, Console& console,
                   MeasuredMachine& machine) {
  BenchCommOptions options;
  options.sizes = quick ? "4K-1M" : "1K-16M";
  options.budget_s = quick ? 0.02 : 0.1;
  options.op = "all_reduce,all_gather,reduce_scatter,all_to_all";
  options.ranks = "2,4";
  const BenchSuite plan = parse_bench_suite(options);
  for (const int ranks : plan.ranks) {
    for (const CollectiveOp op : plan.ops) {
      const std::vector<BenchCase> cases = plan.cases(op, ranks);
      const SweepRun run = run_sweep(plan, op, ranks, environment, console);
      require(run.exit_code == 0, "{} between {} processes could not be measured", name_of(op),
              ranks);
      std::vector<TimeSample> samples;
      for (const BenchRow& row : run.rows) {
        samples.push_back(
            {byte_terms(static_cast<double>(cases[row.index].array_bytes())), row.seconds});
      }
      machine.collectives.push_back(
          {std::string(name_of(op)), "processes", ranks, fit_times(samples)});
    }
  }
}

// Frames of serving, with ranks as threads and as processes.
void add_serving(bool quick, const Environment& environment, Console& console,
                 MeasuredMachine& machine) {
  serve::ServingCalibration options;
  options.quick = quick;
  options.start_processes = [&](const serve::ServePlan& plan) {
    serve::StartOptions start;
    start.environment = environment;
    return std::make_unique<serve::ProcessFrameRunner>(
        serve::process_runner_options(plan, start, 0));
  };
  serve::calibrate_serving(
      options,
      [&](const std::string& what) {
        if (!console.quiet) console.err << "measuring " << what << std::endl;
      },
      machine);
}

// How well each fit meets its points.
std::string fits_text(const MeasuredMachine& machine) {
  TextTable table({{"fitted"}, {"points", Align::kRight}, {"mean error", Align::kRight}});
  const auto add = [&](const std::string& name, const TimeFit& fit) {
    table.add_row({name, fmt::format("{}", fit.points), fmt::format("{:.1f} %", fit.error_pct)});
  };
  const bool teams = machine.device == TrainDevice::kCpu;
  for (const MeasuredKernel& kernel : machine.kernels) {
    if (!kernel.op.starts_with(kClassMark) || kernel.tokens > 0) continue;
    add(fmt::format("{} in {}{}", kernel.op.substr(kClassMark.size()), name_of(kernel.type),
                    teams ? fmt::format(", threads: {}", kernel.threads) : ""),
        kernel.fit);
  }
  for (const MeasuredCollective& collective : machine.collectives) {
    add(fmt::format("{}, {} {}", collective.op, collective.ranks, collective.ranks_are),
        collective.fit);
  }
  return table.str();
}

std::string sharing_text(const MeasuredMachine& machine) {
  std::string text;
  const auto slowdown = [](const CoreSharing& row, OpClass op_class) {
    return row.slowdown[static_cast<size_t>(op_class)];
  };
  for (const CoreSharing& row : machine.sharing) {
    if (row.threads == 1) continue;
    text += fmt::format(
        "{} threads at work: products take {:.2f}, attention {:.2f}, norms {:.2f}, the optimizer "
        "{:.2f} and copies {:.2f} times as long as alone\n",
        row.threads, slowdown(row, OpClass::kProducts), slowdown(row, OpClass::kAttention),
        slowdown(row, OpClass::kNorms), slowdown(row, OpClass::kOptimizer),
        slowdown(row, OpClass::kMovement));
  }
  return text;
}

std::string summary(const Cluster& cluster, const PeakRates& rates) {
  const MeasuredMachine& machine = cluster.measured;
  if (machine.device == TrainDevice::kCuda) {
    const std::string bf16 = rates.bf16_flops_per_s > 0
                                 ? fmt::format(" and {:.1f} in bf16", rates.bf16_flops_per_s / 1e12)
                                 : "";
    return fmt::format("{}: {:.1f} TFLOP/s in f32{}, {:.0f} GB/s in a copy\n", cluster.name,
                       rates.f32_flops_per_s / 1e12, bf16, rates.bytes_per_s / 1e9) +
           fits_text(machine);
  }
  return fmt::format(
             "{}: {} cores, {:.1f} GFLOP/s in f32 and {:.1f} GB/s in a copy on one, {:.2f} us "
             "between instructions\n",
             cluster.name, machine.cores, rates.f32_flops_per_s / 1e9, rates.bytes_per_s / 1e9,
             machine.dispatch_s * 1e6) +
         sharing_text(machine) + fits_text(machine);
}

// A run file ends in .toml too: nothing but an earlier calibration is written over.
void refuse_other_file(const std::string& path) {
  if (!std::filesystem::exists(path)) return;
  bool measured = false;
  try {
    measured = !find_cluster(path, read_text).measured.empty();
  } catch (const Error&) {
    measured = false;  // no cluster file at all
  }
  require_config(measured,
                 "--out is '{}', which is there and is no file of calibrate: choose another name",
                 path);
}

int measure_serving_again(const CalibrateCommandOptions& options, const Environment& environment,
                          Console& console) {
  require_config(std::filesystem::exists(options.out),
                 "--serving measures again what '{}' says of serving, but there is no such file: "
                 "leave --serving out",
                 options.out);
  Cluster cluster = find_cluster(options.out, read_text);
  MeasuredMachine& machine = cluster.measured;
  std::erase_if(machine.kernels, [](const MeasuredKernel& kernel) { return kernel.tokens > 0; });
  machine.reading.clear();
  const OtherLoad others;
  add_serving(options.quick, environment, console, machine);
  check(cluster);
  write_file(options.out, to_toml(cluster), console);
  console.out << fmt::format("{}: frames of serving measured, others used {:.2f} cores\n",
                             cluster.name, others.cores());
  return 0;
}

}  // namespace

Command add_calibrate(CLI::App& root, const Environment& environment) {
  CLI::App* app =
      add_command(root, "calibrate",
                  {"Measure this machine and write a cluster file that predicts its runs.",
                   "tessera calibrate --out machine.toml",
                   "tessera bench predict bench/predict.txt --cluster machine.toml"});
  auto options = std::make_shared<CalibrateCommandOptions>();
  add_text(*app, "--out", options->out, "FILE", "where to write (default machine.toml)");
  add_choice(*app, "--device", options->device, "cpu|cuda",
             "what to measure: the CPU and its ranks, or the kernels of GPU 0 (default cpu)");
  add_switch(*app, "--serving", options->serving,
             "only frames of serving: the rest of what --out has is kept");
  add_switch(*app, "--quick", options->quick, "a few seconds: fewer sizes, f32 only");
  return {app, [options, &environment](Console& console) {
            return run_calibrate(*options, environment, console);
          }};
}

int run_calibrate(const CalibrateCommandOptions& options, const Environment& environment,
                  Console& console) {
  require_config(options.out.ends_with(".toml"),
                 "--out must end in .toml, which is how commands tell files from names: got '{}'",
                 options.out);
  const std::filesystem::path folder = std::filesystem::absolute(options.out).parent_path();
  require_config(access(folder.c_str(), W_OK) == 0,
                 "--out is '{}', but {} is no folder that can be written to: make it, or choose "
                 "another",
                 options.out, folder.string());
  refuse_other_file(options.out);
  const TrainDevice device = device_of(options);
  const bool gpu = device == TrainDevice::kCuda;
  if (gpu) {
    const std::string why_not = cuda::gpu_info(0).why_not;
    require_config(why_not.empty(), "--device cuda: {}: use --device cpu", why_not);
  }
  require_config(!gpu || !options.serving, "--serving measures the CPU alone as yet: leave it out");
  if (options.serving) return measure_serving_again(options, environment, console);
  const OtherLoad others;
  CalibrateResult result =
      calibrate({.quick = options.quick, .device = device}, [&](const std::string& what) {
        if (!console.quiet) console.err << "measuring " << what << std::endl;
      });
  if (!gpu) {
    if (!console.quiet) console.err << "measuring collectives between processes" << std::endl;
    add_processes(options.quick, environment, console, result.machine);
    add_serving(options.quick, environment, console, result.machine);
  }
  const cuda::GpuInfo info = gpu ? cuda::gpu_info(0) : cuda::GpuInfo{};
  const std::string machine = gpu ? info.name : processor_name();
  // The products of another level of the CPU take other times.
  const std::string products = gpu ? "" : fmt::format(", products {}", kernels::blas_name());
  const std::string source = fmt::format("{}, {}, {}{}, others used {:.2f} cores", today(),
                                         command_of(options), machine, products, others.cores());
  const PeakRates rates = result.rates;
  const Cluster cluster = gpu ? describe_one_gpu(std::move(result), info, source)
                              : describe(std::move(result), machine, source);
  check(cluster);
  write_file(options.out, to_toml(cluster), console);
  console.out << fitted(console, summary(cluster, rates));
  if (const std::string warning = load_warning(others.cores()); !warning.empty()) {
    console.err << fitted_err(console, "warning: " + warning + '\n');
  }
  return 0;
}

}  // namespace tessera
