#include "bench/bench_decode.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "bench/bench_decode_report.h"
#include "bench/bench_limit.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/read_text.h"
#include "serve/machine/decode_frames.h"
#include "serve/ranks/host_options.h"
#include "serve/ranks/local_frames.h"
#include "serve/ranks/process_frame_runner.h"
#include "serve/start/replica.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/run_source.h"
#include "train/machine/device_rates.h"

extern char** environ;

namespace tessera {
namespace {

constexpr int64_t kMostBatch = 4096;
constexpr int64_t kMostRounds = 1000;
constexpr int64_t kMostChunk = 2048;  // tokens of one frame

std::vector<int64_t> parse_batches(const std::string& text) {
  std::vector<int64_t> batches;
  for (const std::string_view word : split(text, ',')) {
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(word.begin(), word.end(), number);
    const bool ok = error == std::errc() && stop == word.end() && number >= 1;
    require_config(ok && number <= kMostBatch,
                   "--batch has '{}': expected whole numbers from 1 to {}, such as 1,8", word,
                   kMostBatch);
    batches.push_back(number);
  }
  return batches;
}

// What was typed, where the message of a run says what it became: "--set model.preset=none".
std::string named_by_its_flag(std::string text) {
  for (const auto& [set, flag] :
       {std::pair("--set model.preset=", "--random "), std::pair("--set model.", "--shape ")}) {
    if (text.starts_with(set)) return text.replace(0, std::string_view(set).size(), flag);
  }
  return text;
}

// Models without weights of their own.
RunSpec random_spec(const BenchDecodeOptions& options) {
  RunSource source;
  source.may_lack_file = true;
  if (!options.random.empty()) source.overrides.push_back("model.preset=" + options.random);
  for (const std::string_view key : split(options.shape, ',')) {
    if (key.empty()) continue;
    require_config(key.find('=') != std::string_view::npos,
                   "--shape has '{}': expected keys of [model] with values, such as "
                   "hidden=2048,layers=16",
                   key);
    source.overrides.push_back(fmt::format("model.{}", key));
  }
  try {
    return source.load(read_text);
  } catch (const ConfigError& error) {
    throw ConfigError(named_by_its_flag(error.what()));
  }
}

std::string name_of_model(const BenchDecodeOptions& options) {
  if (!options.model.empty()) return options.model;
  std::string name = options.random;
  if (!options.shape.empty()) name += (name.empty() ? "" : " with ") + options.shape;
  return name + ", random weights";
}

serve::ServeOptions serve_options(const BenchDecodeOptions& options, int64_t most_batch) {
  const ParallelSpec mesh =
      options.mesh.empty() ? ParallelSpec{} : parse_mesh(options.mesh, ParallelSpec{});
  require_config(mesh.world() == mesh.tp * mesh.pp,
                 "--mesh {}: serving splits over tp, pp and ep alone", options.mesh);
  serve::ServeOptions serve;
  serve.model = options.model;
  if (options.model.empty()) serve.random_model = to_json(random_spec(options)).dump();
  serve.tp = mesh.tp;
  serve.pp = mesh.pp;
  serve.ep = mesh.ep;
  serve.dtype = options.dtype == "f64"   ? DType::kF64
                : options.dtype == "f32" ? DType::kF32
                                         : DType::kBF16;
  serve.threads = options.threads;
  serve.max_context = std::max(options.context, options.prompt);
  serve.max_tokens = std::max(most_batch, std::min(options.prompt, kMostChunk));
  serve.max_sequences = serve.max_rows = most_batch;
  const int64_t page = serve.page_size;
  serve.num_pages = std::max(serve::DecodeFrames::pages_of(most_batch, options.context, page),
                             serve::DecodeFrames::pages_of(1, serve.max_context, page));
  return serve;
}

class DecodeBench {
 public:
  DecodeBench(const BenchDecodeOptions& options, serve::FrameRunner& runner, DecodeReport& report)
      : options_(options), report_(report), frames_(runner) {
    const serve::ServePlan& plan = report.plan;
    const int64_t threads = plan.options.threads * static_cast<int64_t>(plan.world());
    probe_ = probe_for({.sources = 1, .targets = 0}, static_cast<int>(threads));
    product_.spec = plan.spec;
    product_.spec.train.threads = threads;
    for (const DecodeCase& one : report.decode) {
      steps_.push_back(frames_.decode(one.batch, report.context));
    }
    if (report.prompt > 0) prompt_ = frames_.prompt(report.prompt);
  }

  // Every figure once, with its limit before and after it.
  void run_round() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const double before = memory_rate(probe_);
      const double seconds = time(steps_[i]);
      add(report_.decode[i].rounds, seconds, {before, memory_rate(probe_)});
    }
    if (prompt_.empty()) return;
    const double before = measure_device_rates(product_).flops_per_s;
    const double seconds = time(prompt_);
    add(report_.prefill, seconds, {before, measure_device_rates(product_).flops_per_s});
  }

 private:
  static void add(TimedRounds& to, double seconds, const MemoryLimit& limit) {
    to.seconds.push_back(seconds);
    to.limit.push_back(limit.rate());
  }

  // The first step, whose memory is cold, says how many fill the time.
  double time(std::vector<serve::Frame>& frames) {
    const double one = frames_.seconds(frames, 1);
    const double times = std::clamp(options_.seconds / one, 1.0, 1e6);
    return frames_.seconds(frames, static_cast<int64_t>(times));
  }

  const BenchDecodeOptions& options_;
  DecodeReport& report_;
  serve::DecodeFrames frames_;
  MemoryProbe probe_;
  StepGraph product_;
  std::vector<std::vector<serve::Frame>> steps_;
  std::vector<serve::Frame> prompt_;
};

void check(const BenchDecodeOptions& options) {
  const bool random = !options.random.empty() || !options.shape.empty();
  require_config(random || !options.model.empty(),
                 "bench decode needs a model: a folder, or --random llama-3.2-1b for weights that "
                 "nobody trained");
  require_config(!random || options.model.empty(),
                 "bench decode has weights in '{}', so --random and --shape have nothing to say: "
                 "leave one of them out",
                 options.model);
  require_config(!options.processes || !options.mesh.empty(),
                 "--processes splits a model over processes: add --mesh tp=2");
  require_config(options.rounds <= kMostRounds, "--rounds is {}: use 1 to {}", options.rounds,
                 kMostRounds);
}

std::unique_ptr<serve::FrameRunner> start_ranks(const BenchDecodeOptions& options,
                                                const serve::ServePlan& plan) {
  if (!options.processes) return std::make_unique<serve::LocalFrameRunner>(plan);
  serve::StartOptions start;
  start.program = options.program;
  start.environment = environment_from(environ);
  return std::make_unique<serve::ProcessFrameRunner>(serve::process_runner_options(plan, start, 0));
}

}  // namespace

Command add_bench_decode(CLI::App& bench) {
  CLI::App* app = add_command(
      bench, "decode",
      {"Time serving's steps, without HTTP, beside what memory and products can do.",
       "tessera bench decode --random llama-3.2-1b --batch 1,8", "tessera bench serve --help"});
  auto options = std::make_shared<BenchDecodeOptions>();
  add_text(*app, "model", options->model, "MODEL",
           "a run directory, a checkpoint, or a folder of Hugging Face");
  add_text(*app, "--random", options->random, "NAME|FILE",
           "random weights for a preset, a model file, or a config.json");
  add_text(*app, "--shape", options->shape, "KEYS",
           "random weights for this shape: \"hidden=2048,layers=16\", keys of [model]");
  add_text(*app, "--batch", options->batches, "LIST", "sequences of a step (default 1,8,16,64)");
  add_length(*app, "--context", options->context,
             "tokens that each sequence has, the newest included (default 512)");
  add_whole(*app, "--prompt", options->prompt, 0,
            "tokens of the prompt that is read; 0: none (default 512)");
  add_choice(*app, "--dtype", options->dtype, "f32|bf16|f64",
             "of weights, activations and cache (default bf16)");
  add_text(*app, "--mesh", options->mesh, "MESH", "ranks: \"tp=2,pp=2\" (default one)");
  add_switch(*app, "--processes", options->processes, "ranks are processes (default threads)");
  add_whole(*app, "--threads", options->threads, 1, "of each rank (default: cores / ranks)");
  add_whole(*app, "--rounds", options->rounds, 1,
            "each measures every figure once, and its limit (default 5)");
  add_real(*app, "--seconds", options->seconds, 0,
           "of steps, for a figure in one round (default 0.5)");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_bench_decode(*options, console); }};
}

int run_bench_decode(const BenchDecodeOptions& options, Console& console) {
  check(options);
  const std::vector<int64_t> batches = parse_batches(options.batches);
  serve::ServeOptions serve =
      serve_options(options, *std::max_element(batches.begin(), batches.end()));
  const RunSpec model = serve::fill_options_of_any(serve);
  const serve::ServePlan plan = serve::plan_serving(model, serve);
  const std::unique_ptr<serve::FrameRunner> runner = start_ranks(options, plan);
  DecodeReport report{.plan = plan,
                      .model = name_of_model(options),
                      .processes = options.processes,
                      .context = options.context,
                      .decode = {},
                      .prompt = options.prompt,
                      .prefill = {}};
  for (const int64_t batch : batches) {
    report.decode.push_back({batch, step_bytes(plan, batch, options.context), {}});
  }
  DecodeBench bench(options, *runner, report);
  for (int64_t round = 0; round < options.rounds; ++round) bench.run_round();
  if (options.json) {
    console.out << decode_json(report).dump(2) << '\n';
  } else {
    console.out << fitted(console, decode_text(report));
  }
  return 0;
}

}  // namespace tessera
