#include "serve/machine/calibrate_serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <thread>
#include <tuple>

#include "compile/program/instruction_cost.h"
#include "serve/machine/decode_frames.h"
#include "serve/machine/probe_rank.h"
#include "serve/machine/reading_shares.h"
#include "serve/predict/frame_pricer.h"
#include "serve/predict/frame_rates.h"
#include "serve/predict/frame_terms.h"
#include "serve/ranks/local_frames.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/machine/probe_programs.h"

namespace tessera::serve {
namespace {

// A model of a few layers whose frames have the kernels of serving at one set of sizes.
struct ProbeModel {
  int64_t hidden, ffn, heads, kv_heads, layers, vocab;
  std::array<int64_t, 2> most_tokens;  // of all sizes of frames up to it; and one more
};
// From what the nearest cache holds to what none does.
constexpr std::array kKernelProbes = {
    ProbeModel{128, 352, 4, 2, 2, 512, {2048, 0}},
    ProbeModel{384, 1024, 6, 2, 4, 2048, {2048, 0}},
    ProbeModel{768, 2048, 12, 4, 6, 8192, {256, 1024}},
    ProbeModel{2048, 5632, 32, 8, 2, 16384, {64, 512}},
};
constexpr size_t kQuickProbes = 1;  // the first so many
// So small that all else is a large part of their frames.
constexpr std::array kHostProbes = {
    ProbeModel{64, 128, 2, 2, 2, 512, {0, 0}},
    ProbeModel{64, 128, 2, 2, 12, 512, {0, 0}},
    ProbeModel{64, 128, 2, 2, 2, 32768, {0, 0}},
    ProbeModel{512, 512, 8, 4, 4, 1024, {0, 0}},
};
constexpr int64_t kSequences = 64;
constexpr int64_t kContext = 640;  // tokens of the longest sequence that is written
constexpr int64_t kMostFrame = 2048;

ServeOptions probe_options(const ProbeModel& probe, DType dtype, int64_t threads, int64_t tp) {
  const std::vector<std::string> overrides = {fmt::format("model.hidden={}", probe.hidden),
                                              fmt::format("model.ffn={}", probe.ffn),
                                              fmt::format("model.heads={}", probe.heads),
                                              fmt::format("model.kv_heads={}", probe.kv_heads),
                                              fmt::format("model.layers={}", probe.layers),
                                              fmt::format("model.vocab={}", probe.vocab)};
  RunSpec spec = parse_run_file("", "probe", overrides, {});
  resolve(spec);
  ServeOptions options;
  options.random_model = to_json(spec).dump();
  options.tp = tp;
  options.dtype = dtype;
  options.threads = threads;
  options.max_context = kMostFrame + kContext;
  options.max_tokens = kMostFrame;
  options.max_sequences = options.max_rows = kSequences;
  options.num_pages = std::max(DecodeFrames::pages_of(kSequences, kContext, options.page_size),
                               DecodeFrames::pages_of(1, options.max_context, options.page_size));
  return options;
}

RunSpec model_of(const ServeOptions& options) {
  return run_spec_from_json(nlohmann::json::parse(options.random_model));
}

// A chunk of `tokens` behind `cached` tokens of a prompt.
Frame chunk_frame(const DecodeFrames& frames, int64_t cached, int64_t tokens) {
  Frame frame = frames.prompt(tokens).front();
  FrameSequence& sequence = frame.sequences.front();
  sequence.cached = static_cast<int32_t>(cached);
  const int64_t pages = DecodeFrames::pages_of(1, cached + tokens, 16);
  sequence.pages.resize(static_cast<size_t>(pages));
  std::iota(sequence.pages.begin(), sequence.pages.end(), 0);
  frame.rows.front().sampling.position = cached + tokens;
  return frame;
}

// What was measured of one op, type, number of threads and size of frame.
using Key = std::tuple<std::string, DType, int, int>;

class Calibration {
 public:
  Calibration(const ServingCalibration& options,
              const std::function<void(const std::string&)>& progress, MeasuredMachine& machine)
      : options_(options), progress_(progress), machine_(machine) {}

  void run() {
    std::vector<int> teams = {1};
    if (machine_.cores > 1) teams.push_back(machine_.cores);
    progress_("how soon caches lose what is read again");
    for (const int team : teams) machine_.reading.push_back(measure_reading(team, options_.quick));
    std::vector<DType> types = {DType::kF32};
    if (!options_.quick) types.push_back(DType::kBF16);
    for (const DType type : types) {
      for (const int team : teams) measure_kernels(type, team);
    }
    fit_samples();
    for (const DType type : types) {
      for (const int team : teams) measure_host(type, team);
      if (machine_.cores > 1) measure_talk(type);
    }
    fit_samples();
  }

 private:
  static constexpr int64_t kLeastRepeats = 3;
  [[nodiscard]] int64_t most_repeats() const { return options_.quick ? 3 : 9; }

  [[nodiscard]] std::span<const ProbeModel> host_probes() const {
    const std::span<const ProbeModel> all = kHostProbes;
    return options_.quick ? all.first(kQuickProbes) : all;
  }

  void measure_kernels(DType type, int threads) {
    const std::span<const ProbeModel> all = kKernelProbes;
    for (const ProbeModel& probe : options_.quick ? all.first(kQuickProbes) : all) {
      progress_(fmt::format("frames of a model of width {} in {} on {} {}", probe.hidden,
                            name_of(type), threads, threads == 1 ? "thread" : "threads"));
      const ServeOptions options = probe_options(probe, type, threads, 1);
      ServePlan plan = plan_serving(model_of(options), options);
      const std::vector<BucketPlan>& buckets = plan.buckets;
      std::vector<int64_t> sizes;
      for (const BucketPlan& bucket : buckets) {
        const int64_t tokens = bucket.bucket.tokens;
        if (options_.quick && tokens != 1 && tokens != 8 && tokens != kSequences) continue;
        if (tokens <= probe.most_tokens[0] || tokens == probe.most_tokens[1]) {
          sizes.push_back(tokens);
        }
      }
      ProbeRank rank(std::move(plan));
      const bool widest = probe.hidden == kKernelProbes.back().hidden;
      for (const int64_t tokens : sizes) measure_frames(rank, threads, tokens, widest);
    }
  }

  void measure_frames(ProbeRank& rank, int threads, int64_t tokens, bool widest) {
    const DecodeFrames frames(rank);
    std::vector<Frame> all;
    if (tokens <= kSequences) {
      all.push_back(frames.decode(tokens, kContext).front());
    } else {
      all.push_back(chunk_frame(frames, 0, tokens));
    }
    // Products are nearly all of the largest model, and the others have told the rest.
    if (!widest && tokens <= kSequences) {
      all.push_back(chunk_frame(frames, 0, tokens));
      all.push_back(frames.decode(tokens, 48).front());
    } else if (!widest) {
      all.push_back(chunk_frame(frames, kContext, tokens));
    }
    for (const Frame& frame : all) add_frame(rank, frame, threads, tokens);
  }

  void add_frame(ProbeRank& rank, const Frame& frame, int threads, int64_t tokens) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    rank.start(frame);
    const double once = std::chrono::duration<double>(Clock::now() - start).count();
    constexpr double kSeconds = 0.1;  // of runs
    const int64_t repeats =
        std::clamp(static_cast<int64_t>(kSeconds / once), kLeastRepeats, most_repeats());
    const std::vector<double> seconds = rank.time_instructions(frame, repeats);
    const Program& program = rank.program_of(frame);
    const FrameLoad load = load_of(frame);
    const FrameRates rates(machine_);
    const MissShares misses =
        rates.misses(threads, weight_bytes(program) + cache_bytes(program, load));
    for (size_t i = 0; i < seconds.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      if (instruction.stream != StreamKind::kCompute || seconds[i] <= 0) continue;
      const TimeTerms units = instruction.op == OpKind::kPagedAttention
                                  ? attention_terms(program, instruction, load, misses)
                                  : frame_terms(program, instruction, misses);
      const std::string any =
          std::string(kClassMark) + std::string(name_of(class_of(instruction.op)));
      for (const std::string& name : {std::string(name_of(instruction.op)), any}) {
        const DType stored = kernel_type(program, instruction);
        samples_[{name, stored, threads, static_cast<int>(tokens)}].push_back({units, seconds[i]});
      }
    }
  }

  void fit_samples() {
    for (const auto& [key, samples] : samples_) {
      const auto& [op, type, threads, tokens] = key;
      machine_.kernels.push_back({op, type, threads, fit_times(samples), tokens});
    }
    samples_.clear();
  }

  // Frames as one rank gets them, less what their instructions take.
  void measure_host(DType type, int threads) {
    progress_(fmt::format("what the host adds to frames in {} on {} {}", name_of(type), threads,
                          threads == 1 ? "thread" : "threads"));
    for (const ProbeModel& probe : host_probes()) {
      const ServeOptions options = probe_options(probe, type, threads, 1);
      const ServePlan plan = plan_serving(model_of(options), options);
      ProbeRank rank(plan);
      LocalFrameRunner runner(plan);
      DecodeFrames frames(runner);
      for (const int64_t batch : {int64_t{1}, int64_t{8}, kSequences}) {
        std::vector<Frame> decode = frames.decode(batch, 48);
        const Program& program = rank.program_of(decode.front());
        const std::vector<double> inside = rank.time_instructions(decode.front(), 9);
        const double kernels = std::accumulate(inside.begin(), inside.end(), 0.0);
        add_host(kHostWork, type, threads, time_frames(frames, decode) - kernels,
                 host_terms(batch, std::ssize(program.instructions), batch * probe.vocab));
      }
    }
  }

  // Frames of two ranks, less what their kernels are predicted to take.
  void measure_talk(DType type) {
    for (const std::string ranks_are : {"threads", "processes"}) {
      if (ranks_are == "processes" && !options_.start_processes) continue;
      progress_(
          fmt::format("what two ranks as {} tell each other in {}", ranks_are, name_of(type)));
      for (const ProbeModel& probe : host_probes()) measure_talk_of(probe, type, ranks_are);
    }
  }

  void measure_talk_of(const ProbeModel& probe, DType type, const std::string& ranks_are) {
    const ServeOptions options = probe_options(probe, type, 1, 2);
    const RunSpec model = model_of(options);
    const ServePlan plan = plan_serving(model, options);
    const ServeEstimate estimate = estimate_serving(model, options);
    Cluster here;
    here.devices = machine_.cores;
    here.measured = machine_;
    FramePricer pricer(estimate, here, ranks_are);
    const std::unique_ptr<FrameRunner> runner = ranks_are == "threads"
                                                    ? std::make_unique<LocalFrameRunner>(plan)
                                                    : options_.start_processes(plan);
    DecodeFrames frames(*runner);
    for (const int64_t tokens : {int64_t{1}, int64_t{8}, int64_t{64}, int64_t{256}}) {
      std::vector<Frame> timed = {tokens <= kSequences ? frames.decode(tokens, 48).front()
                                                       : frames.prompt(tokens).front()};
      const Program& program =
          plan.buckets[plan.bucket_of(tokens, std::ssize(timed.front().sequences),
                                      std::ssize(timed.front().rows))]
              .programs.front();
      const int64_t rows = std::ssize(timed.front().rows);
      TimeTerms units = host_terms(tokens, std::ssize(program.instructions), rows * probe.vocab);
      add_talk_terms(program, units);
      const double kernels = pricer.price(load_of(timed.front())).kernels_s();
      add_host(host_work(2, ranks_are), type, 1, time_frames(frames, timed) - kernels, units);
    }
  }

  void add_host(std::string_view what, DType type, int threads, double seconds,
                const TimeTerms& units) {
    constexpr double kLeast = 1e-6;  // what is less than that was disturbed
    samples_[{std::string(what), type, threads, 1}].push_back({units, std::max(kLeast, seconds)});
  }

  // The median of several times.
  [[nodiscard]] double time_frames(DecodeFrames& frames, std::vector<Frame>& timed) const {
    const double part_s = options_.quick ? 0.002 : 0.02;  // of one of them
    frames.seconds(timed, 3);
    const double once = frames.seconds(timed, 3);
    const auto times = static_cast<int64_t>(std::clamp(part_s / once, 1.0, 1e5));
    std::vector<double> seconds;
    for (int64_t i = 0; i < most_repeats(); ++i) seconds.push_back(frames.seconds(timed, times));
    return median_of(std::move(seconds));
  }

  const ServingCalibration& options_;
  const std::function<void(const std::string&)>& progress_;
  MeasuredMachine& machine_;
  std::map<Key, std::vector<TimeSample>> samples_;
};

}  // namespace

void calibrate_serving(const ServingCalibration& options,
                       const std::function<void(const std::string& what)>& progress,
                       MeasuredMachine& machine) {
  Calibration(options, progress, machine).run();
}

}  // namespace tessera::serve
