#include "train/watch_flags.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/output_flags.h"
#include "cli/read_text.h"
#include "cli/write_file.h"
#include "cost/hardware/catalogue.h"
#include "draw/trace.h"
#include "spec/run_file/run_file.h"
#include "tensor/gpu_memory.h"
#include "train/measured_timeline.h"
#include "train/session/session.h"

namespace tessera {
namespace {

// The first step pays for page faults, the second for caches.
constexpr StepRange kUsualSteps = {3, 5};

StepRange traced_steps(const WatchFlags& flags, const RunSpec& spec) {
  if (flags.trace.empty()) return {};
  StepRange range = flags.trace_steps.empty() ? kUsualSteps : parse_step_range(flags.trace_steps);
  if (flags.trace_steps.empty()) range.first = std::min(range.first, spec.train.steps);
  // A range that lies behind the end stays as it is, to be refused.
  if (range.first <= spec.train.steps) range.last = std::min(range.last, spec.train.steps);
  return range;
}

bool on_matrix_units(DType type) { return type == DType::kBF16 || type == DType::kF16; }

// The entry of the catalogue all of whose words are in the GPU's name, the longest one; or empty.
std::string catalogue_name(const std::string& gpu) {
  const std::string name = lower_case(gpu);
  std::string best;
  for (const std::string_view known : device_names()) {
    const std::vector<std::string_view> words = split(known, '-');
    const bool all = std::all_of(words.begin(), words.end(), [&](std::string_view word) {
      return name.find(word) != std::string::npos;
    });
    if (all && known.size() > best.size()) best = known;
  }
  return best;
}

// In f32 a GPU may or may not use its matrix units: which peak counts is not known.
PeakRate peak_of_gpu(const TrainOptions& train) {
  if (!on_matrix_units(train.spec.train.dtype)) return {};
  const std::string device = catalogue_name(cuda::gpu_info(train.gpu).name);
  if (device.empty()) return {};
  return {find_device(device).peak(MathType::kF16), false};
}

// Only `tessera calibrate` has measured this machine; entries of the catalogue are somebody else's.
PeakRate peak_of_cpu(const TrainOptions& train, const RunSource& source) {
  const std::string name = named_cluster(train.config_text, source.file, source.settings());
  if (!name.ends_with(".toml") || !std::filesystem::exists(name)) return {};
  const Cluster cluster = find_cluster(name, read_text);
  if (cluster.measured.empty() || cluster.measured.device != TrainDevice::kCpu) return {};
  const MathType type = on_matrix_units(train.spec.train.dtype) ? MathType::kF16 : MathType::kF32;
  return {cluster.device.peak(type), true};
}

}  // namespace

void add_watch_flags(CLI::App& app, WatchFlags& flags) {
  add_real(app, "--max-minutes", flags.max_minutes, 0,
           "end after the step that reaches so many minutes; weights are written as at the end");
  add_output_file(app, "--trace", flags.trace, kTraceOutput, "FILE",
                  "write a trace of real steps for ui.perfetto.dev (x.json.gz: compressed)");
  add_text(app, "--trace-steps", flags.trace_steps, "A..B", "which ones (default 3..5)");
}

void check_watch(const WatchFlags& flags, const RunSpec& spec) {
  require_config(flags.trace_steps.empty() || !flags.trace.empty(),
                 "--trace-steps says which steps --trace FILE writes: give --trace as well");
  if (flags.trace.empty()) return;
  const StepRange range = traced_steps(flags, spec);
  const StepTrace fits(spec, range, 0);  // throws where it cannot be
}

void use_watch(const WatchFlags& flags, const RunSource& source, TrainOptions& train) {
  train.max_seconds = flags.max_minutes * 60;
  train.trace = traced_steps(flags, train.spec);
  train.peak = train.spec.train.device == TrainDevice::kCuda ? peak_of_gpu(train)
                                                             : peak_of_cpu(train, source);
}

void write_watched(const WatchFlags& flags, const TrainSummary& summary, Console& console) {
  if (flags.trace.empty() || summary.trace == nullptr) return;
  if (summary.trace->steps.empty()) {
    console.err << "tessera: no trace is written: the run ended before step "
                << (flags.trace_steps.empty() ? std::to_string(kUsualSteps.first)
                                              : flags.trace_steps)
                << '\n';
    return;
  }
  const std::vector<StepTimeline> steps = measured_timelines(*summary.trace);
  const TraceOptions options{.config_digest = digest_of(summary.trace->programs.front()),
                             .backend = summary.measured.at("backend").get<std::string>()};
  write_file(flags.trace, trace_json(steps, options), console);
}

}  // namespace tessera
