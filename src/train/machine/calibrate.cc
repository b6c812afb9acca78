#include "train/machine/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <thread>
#include <tuple>

#include "base/error.h"
#include "compile/program/instruction_cost.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "tensor/gpu_memory.h"
#include "train/machine/probe_programs.h"
#include "train/machine/step_bench.h"
#include "train/machine_defaults.h"

namespace tessera {
namespace {

// A small model whose step has the kernels of its family at one set of sizes.
struct ProbeModel {
  const char* family;
  int64_t hidden, ffn, heads, kv_heads, vocab, seq_len, micro_batch;
  int64_t experts = 0;
};
constexpr std::array kProbeModels = {
    ProbeModel{"llama", 96, 256, 4, 2, 384, 48, 1},
    ProbeModel{"gpt2", 128, 512, 4, 4, 512, 64, 2},
    ProbeModel{"mixtral", 128, 192, 4, 2, 512, 64, 2, 4},
    ProbeModel{"llama", 192, 512, 6, 2, 1024, 96, 2},
    ProbeModel{"qwen3", 192, 384, 6, 6, 1024, 160, 1},
    ProbeModel{"mixtral", 224, 448, 7, 7, 768, 160, 1, 4},
    ProbeModel{"gpt2", 320, 1280, 5, 5, 2048, 192, 1},
    ProbeModel{"llama", 448, 1216, 7, 7, 4096, 320, 1},
};
constexpr size_t kQuickProbes = 4;  // the first so many
// A GPU's kernels at the sizes of its runs: from those that a launch outlasts to those that fill
// it.
constexpr std::array kGpuProbeModels = {
    ProbeModel{"llama", 256, 704, 4, 2, 2048, 256, 2},
    ProbeModel{"gpt2", 640, 2560, 10, 10, 16384, 512, 8},
    ProbeModel{"mixtral", 768, 1536, 6, 2, 8192, 1024, 4, 8},
    ProbeModel{"llama", 1024, 2816, 8, 4, 32000, 2048, 4},
    ProbeModel{"qwen3", 1280, 3456, 10, 2, 32000, 1024, 4},
    ProbeModel{"mixtral", 1536, 3072, 12, 4, 8192, 2048, 2, 4},
    ProbeModel{"gpt2", 1152, 4608, 18, 18, 50304, 1024, 16},
    ProbeModel{"llama", 2816, 7552, 22, 2, 8192, 4096, 2},
};
// Models of middle size with all classes of kernels: what several ranks run at once.
constexpr std::array kSharingProbes = {
    ProbeModel{"mixtral", 160, 256, 4, 2, 512, 96, 1, 4},
    ProbeModel{"gpt2", 192, 768, 6, 6, 1024, 128, 2},
    ProbeModel{"llama", 320, 864, 5, 5, 2048, 192, 1},
};

RunSpec probe_spec(const ProbeModel& probe, TrainDevice device, DType dtype, int threads) {
  std::vector<std::string> overrides = {
      fmt::format("model.family={}", probe.family), "model.layers=2",
      fmt::format("model.hidden={}", probe.hidden), fmt::format("model.ffn={}", probe.ffn),
      fmt::format("model.heads={}", probe.heads), fmt::format("model.kv_heads={}", probe.kv_heads),
      fmt::format("model.vocab={}", probe.vocab), fmt::format("train.seq_len={}", probe.seq_len),
      fmt::format("train.micro_batch={}", probe.micro_batch),
      // Two micro-batches: some kernels add to what is there.
      fmt::format("train.global_batch={}", 2 * probe.micro_batch),
      fmt::format("train.dtype={}", name_of(dtype)),
      fmt::format("train.device={}", name_of(device)), fmt::format("train.threads={}", threads)};
  if (probe.experts > 0) overrides.push_back(fmt::format("model.experts={}", probe.experts));
  RunSpec spec = parse_run_file("", "probe", overrides, {});
  resolve(spec);
  return spec;
}

// What was measured of one op, type and number of threads.
using KernelKey = std::tuple<std::string, DType, int>;

class Calibration {
 public:
  Calibration(const CalibrateOptions& options,
              const std::function<void(const std::string&)>& progress)
      : options_(options), progress_(progress) {
    result_.machine.device = options.device;
    if (gpu()) return;
    result_.machine.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }

  CalibrateResult run() {
    std::vector<DType> types = {DType::kF32};
    if (!options_.quick) types.push_back(DType::kBF16);
    std::vector<int> teams = {1};
    if (cores() > 1) teams.push_back(cores());
    const double gap = gap_between_kernels(options_.device);
    result_.machine.dispatch_s = std::max(0.0, gap);
    timing_s_ = std::max(0.0, -gap);
    for (const DType type : types) {
      for (const int threads : teams) measure_kernels(type, threads);
    }
    fit_kernels();
    result_.rates.bytes_per_s = copy_rate(options_.device);
    if (gpu()) return std::move(result_);
    measure_sharing();
    measure_collectives();
    return std::move(result_);
  }

 private:
  using ClassSeconds = std::array<double, kNumOpClasses>;

  [[nodiscard]] bool gpu() const { return options_.device == TrainDevice::kCuda; }
  [[nodiscard]] int cores() const { return result_.machine.cores; }
  [[nodiscard]] int64_t repeats() const { return options_.quick ? 3 : 7; }

  void measure_kernels(DType type, int threads) {
    const std::string in = gpu() ? std::string(name_of(type))
                                 : fmt::format("{} on {} {}", name_of(type), threads,
                                               threads == 1 ? "thread" : "threads");
    progress_(fmt::format("products in {}", in));
    const Program products = product_sweep(type, threads, options_.quick, gpu());
    add_samples(products, time_instructions(options_.device, products, repeats()), type, threads);
    const Program movement = movement_sweep(type, threads, gpu());
    add_samples(movement, time_instructions(options_.device, movement, repeats()), type, threads);
    const std::span<const ProbeModel> all = gpu() ? kGpuProbeModels : kProbeModels;
    const bool few = options_.quick || (gpu() && type == DType::kF32);
    for (const ProbeModel& probe : few ? all.first(kQuickProbes) : all) {
      progress_(fmt::format("a step of a {} of width {} in {}", probe.family, probe.hidden, in));
      measure_probe(probe_spec(probe, options_.device, type, threads), type, threads);
    }
  }

  void measure_probe(const RunSpec& spec, DType type, int threads) {
    const CompiledRun run = compile_here(spec);
    if (!has_room_for(run.programs.front())) {
      progress_("nothing of that: it needs more memory than the GPU has free");
      return;
    }
    const StepBenchResult bench =
        bench_step(run, {.steps = repeats(), .warmup = 2, .probed = repeats()});
    const Program& program = run.programs.front();
    add_samples(program, bench.instruction_s, type, threads);
  }

  [[nodiscard]] bool has_room_for(const Program& program) const {
    constexpr double kForTensors = 0.9;  // libraries need some of it
    return !gpu() || static_cast<double>(program.total_bytes()) <
                         kForTensors * static_cast<double>(cuda::gpu_info(0).free_bytes);
  }

  void add_samples(const Program& program, const std::vector<double>& seconds, DType type,
                   int threads) {
    for (size_t i = 0; i < seconds.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      if (instruction.stream != StreamKind::kCompute || seconds[i] <= 0) continue;
      const double alone = std::max(seconds[i] - timing_s_, kLeastPart * seconds[i]);
      const TimeSample sample{kernel_terms(program, instruction), alone};
      const DType stored = kernel_type(program, instruction);
      samples_[{std::string(name_of(instruction.op)), stored, threads}].push_back(sample);
      const OpClass op_class = class_of(instruction.op);
      const std::string any = std::string(kClassMark) + std::string(name_of(op_class));
      samples_[{any, stored, threads}].push_back(sample);
      if (op_class != OpClass::kProducts || threads > 1) continue;
      const double rate = static_cast<double>(cost_of(program, instruction).flops) / alone;
      double& best =
          type == DType::kBF16 ? result_.rates.bf16_flops_per_s : result_.rates.f32_flops_per_s;
      best = std::max(best, rate);
    }
  }

  void fit_kernels() {
    for (const auto& [key, samples] : samples_) {
      const auto& [op, type, threads] = key;
      result_.machine.kernels.push_back({op, type, threads, fit_times(samples)});
    }
  }

  // Steps of the same models on more and more ranks at once, up to twice as many as there are
  // cores: how much longer the kernels of one of them take.
  void measure_sharing() {
    std::vector<int> teams;
    for (int ranks = 1; ranks < cores(); ranks *= 2) teams.push_back(ranks);
    teams.push_back(cores());
    teams.push_back(2 * cores());
    ClassSeconds alone{};
    for (const int ranks : teams) {
      progress_(fmt::format("{} {} at work at once", ranks, ranks == 1 ? "rank" : "ranks"));
      const ClassSeconds together = class_seconds(ranks);
      if (ranks == 1) alone = together;
      add_sharing(ranks, alone, together);
    }
  }

  // A class whose kernels are few and short says little: what all together say counts as a small
  // part of its own.
  void add_sharing(int ranks, const ClassSeconds& alone, const ClassSeconds& together) {
    constexpr double kPart = 0.005;
    const double all_alone = std::accumulate(alone.begin(), alone.end(), 0.0);
    const double all_together = std::accumulate(together.begin(), together.end(), 0.0);
    std::vector<CoreSharing>& rows = result_.machine.sharing;
    CoreSharing row{ranks, {}};
    for (size_t c = 0; c < alone.size(); ++c) {
      const double slowdown = (together[c] + kPart * all_together) / (alone[c] + kPart * all_alone);
      // More threads at work speed nobody up: what says so was disturbed.
      row.slowdown[c] = std::max(rows.empty() ? 1 : rows.back().slowdown[c], slowdown);
    }
    rows.push_back(row);
  }

  // By class, of one rank's kernels on one thread while `ranks` of them are at work, each probe
  // counting the same.
  [[nodiscard]] ClassSeconds class_seconds(int ranks) const {
    ClassSeconds sums{};
    const size_t probes = options_.quick ? 1 : kSharingProbes.size();
    for (size_t p = 0; p < probes; ++p) {
      const ProbeModel& probe = kSharingProbes[p];
      const CompiledRun run = compile_here(probe_spec(probe, TrainDevice::kCpu, DType::kF32, 1));
      const StepBenchResult bench =
          bench_step(run, {.steps = 1, .warmup = 2, .probed = 2 * repeats(), .company = ranks - 1});
      const Program& program = run.programs.front();
      for (size_t i = 0; i < program.instructions.size(); ++i) {
        const OpClass op_class = class_of(program.instructions[i].op);
        sums[static_cast<size_t>(op_class)] += bench.mean_instruction_s[i];
      }
    }
    // Collectives copy and add in memory, too.
    const double copies_s = time_together(memory_work(), ranks, 20 * repeats());
    for (const OpClass moves : {OpClass::kMovement, OpClass::kCommunication}) {
      sums[static_cast<size_t>(moves)] = copies_s;
    }
    return sums;
  }

  void measure_collectives() {
    const double one_works_s = time_work(1, 10 * repeats());
    for (const int ranks : {2, 4}) {
      const double all_work_s = time_work(ranks, 10 * repeats());
      for (const CastKind kind : {CastKind::kAllReduce, CastKind::kReduceScatter,
                                  CastKind::kAllGather, CastKind::kAllToAll, CastKind::kShift}) {
        measure_collective(kind, ranks, all_work_s);
      }
      // A message has two ends, and one of them waits for it.
      if (ranks == 2) measure_collective(CastKind::kNothing, ranks, one_works_s);
    }
  }

  void measure_collective(CastKind kind, int ranks, double work_s) {
    const std::string op(kind == CastKind::kNothing ? "send" : collective_name(kind));
    progress_(fmt::format("{} between {} ranks", op, ranks));
    std::vector<TimeSample> samples;
    const int64_t largest = options_.quick ? 1 << 20 : 1 << 24;
    const int64_t growth = options_.quick ? 64 : 8;
    for (int64_t bytes = 256; bytes <= largest; bytes *= growth) {
      const double seconds = time_collective(kind, ranks, bytes, repeats(), work_s);
      samples.push_back({byte_terms(static_cast<double>(bytes)), std::max(1e-7, seconds)});
    }
    result_.machine.collectives.push_back({op, "threads", ranks, fit_times(samples)});
  }

  // A kernel's own part, at least, of what is measured for it.
  static constexpr double kLeastPart = 0.1;

  double timing_s_ = 0;  // that timing a kernel adds to it
  const CalibrateOptions& options_;
  const std::function<void(const std::string&)>& progress_;
  std::map<KernelKey, std::vector<TimeSample>> samples_;
  CalibrateResult result_;
};

}  // namespace

CalibrateResult calibrate(const CalibrateOptions& options,
                          const std::function<void(const std::string& what)>& progress) {
  return Calibration(options, progress).run();
}

}  // namespace tessera
