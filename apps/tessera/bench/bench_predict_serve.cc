#include "bench/bench_predict_serve.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "bench/named_runs.h"
#include "cli/help.h"
#include "cli/other_load.h"
#include "cli/read_text.h"
#include "published/statistics.h"
#include "serve/machine/decode_frames.h"
#include "serve/predict/serve_prediction.h"
#include "serve/ranks/local_frames.h"
#include "serve/ranks/process_frame_runner.h"
#include "serve/start/replica.h"
#include "spec/run_file/run_file.h"
#include "train/machine/probe_programs.h"

extern char** environ;

namespace tessera {
namespace {

// A model, its ranks, and what is measured of it.
struct ServedRun {
  std::string name;
  serve::ServeOptions options;
  bool processes = false;
  int64_t context = 256;  // tokens of each sequence that is written
  std::vector<int64_t> batches = {1, 8, 32};
  std::vector<int64_t> prompts = {128, 512};
};

std::vector<int64_t> parse_numbers(const std::string& name, std::string_view key,
                                   std::string_view text) {
  std::vector<int64_t> numbers;
  for (const std::string_view word : split(text, ',')) {
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(word.begin(), word.end(), number);
    require_config(error == std::errc() && stop == word.end() && number >= 1 && number <= 1 << 20,
                   "{}: {} has '{}': expected whole numbers from 1 to 1048576, such as 1,8", name,
                   key, word);
    numbers.push_back(number);
  }
  return numbers;
}

DType parse_type(const std::string& name, std::string_view text) {
  for (const DType type : {DType::kBF16, DType::kF32, DType::kF64}) {
    if (name_of(type) == text) return type;
  }
  throw ConfigError(fmt::format("{}: serve.dtype is '{}': use bf16, f32 or f64", name, text));
}

void set(ServedRun& run, std::string_view key, std::string_view value) {
  const auto number = [&] { return parse_numbers(run.name, key, value).front(); };
  if (key == "serve.tp") return void(run.options.tp = number());
  if (key == "serve.pp") return void(run.options.pp = number());
  if (key == "serve.threads") return void(run.options.threads = number());
  if (key == "serve.context") return void(run.context = number());
  if (key == "serve.dtype") return void(run.options.dtype = parse_type(run.name, value));
  if (key == "serve.batch") return void(run.batches = parse_numbers(run.name, key, value));
  if (key == "serve.prompt") return void(run.prompts = parse_numbers(run.name, key, value));
  if (key == "serve.ranks" && (value == "threads" || value == "processes")) {
    return void(run.processes = value == "processes");
  }
  throw ConfigError(
      fmt::format("{}: {}={} is none of serve.tp, serve.pp, serve.threads, serve.context, "
                  "serve.dtype, serve.batch, serve.prompt, serve.ranks=threads|processes",
                  run.name, key, value));
}

// Keys of [serve] say what is measured; the others are the model's.
ServedRun served_run(const NamedRun& named) {
  ServedRun run;
  run.name = named.name;
  run.options.dtype = DType::kBF16;
  run.options.threads = 1;
  RunSource model = named.source;
  model.overrides.clear();
  for (const std::string& word : named.source.overrides) {
    const size_t equals = word.find('=');
    if (!word.starts_with("serve.")) {
      model.overrides.push_back(word);
    } else if (equals != std::string::npos) {
      set(run, std::string_view(word).substr(0, equals), std::string_view(word).substr(equals + 1));
    }
  }
  serve::ServeOptions& options = run.options;
  options.random_model = to_json(model.load(read_text)).dump();
  const int64_t most_batch = *std::max_element(run.batches.begin(), run.batches.end());
  const int64_t most_prompt = *std::max_element(run.prompts.begin(), run.prompts.end());
  options.max_context = std::max(run.context, most_prompt);
  options.max_tokens = std::max<int64_t>(most_batch, std::min<int64_t>(most_prompt, 2048));
  options.max_sequences = options.max_rows = most_batch;
  options.num_pages =
      std::max(serve::DecodeFrames::pages_of(most_batch, run.context, options.page_size),
               serve::DecodeFrames::pages_of(1, options.max_context, options.page_size));
  return run;
}

// One figure.
struct Row {
  std::string run, what;  // "TPOT of 8"
  double predicted_s = 0, measured_s = 0;
  serve::FramePrice price;  // of one of its frames
  [[nodiscard]] double error_pct() const { return 100 * (predicted_s / measured_s - 1); }
};

std::unique_ptr<serve::FrameRunner> start_ranks(const ServedRun& run,
                                                const serve::ServePlan& plan) {
  if (!run.processes) return std::make_unique<serve::LocalFrameRunner>(plan);
  serve::StartOptions start;
  start.environment = environment_from(environ);
  return std::make_unique<serve::ProcessFrameRunner>(serve::process_runner_options(plan, start, 0));
}

// The median of several times, after one that warms up.
double measure(serve::DecodeFrames& frames, std::vector<serve::Frame> timed) {
  constexpr double kSeconds = 0.15;
  constexpr int kRounds = 5;
  const double first = frames.seconds(timed, 1);
  if (first > 2) return std::min(first, frames.seconds(timed, 1));
  const double once = frames.seconds(timed, 1);
  const auto times = static_cast<int64_t>(std::clamp(kSeconds / once, 1.0, 1e5));
  std::vector<double> seconds;
  for (int i = 0; i < kRounds; ++i) seconds.push_back(frames.seconds(timed, times));
  return median_of(std::move(seconds));
}

void predict_and_measure(const ServedRun& run, const Cluster& cluster, std::vector<Row>& rows) {
  const RunSpec model = run_spec_from_json(nlohmann::json::parse(run.options.random_model));
  const serve::ServeEstimate estimate = serve::estimate_serving(model, run.options);
  serve::FramePricer pricer(estimate, cluster, run.processes ? "processes" : "threads");
  const serve::ServePlan plan = serve::plan_serving(model, run.options);
  const std::unique_ptr<serve::FrameRunner> runner = start_ranks(run, plan);
  serve::DecodeFrames frames(*runner);
  for (const int64_t batch : run.batches) {
    rows.push_back({run.name, fmt::format("TPOT of {}", batch),
                    serve::decode_step_s(pricer, estimate, batch, run.context),
                    measure(frames, frames.decode(batch, run.context)),
                    pricer.price(serve::decode_load(batch, run.context))});
  }
  for (const int64_t prompt : run.prompts) {
    rows.push_back({run.name, fmt::format("TTFT of {}", prompt),
                    serve::first_token_s(pricer, estimate, prompt, estimate.shape.max_tokens),
                    measure(frames, frames.prompt(prompt)),
                    pricer.price(serve::prompt_loads(prompt, estimate.shape.max_tokens).front())});
  }
}

ErrorSummary summary_of(const std::vector<Row>& rows, std::string_view what) {
  std::vector<double> predicted, measured;
  for (const Row& row : rows) {
    if (!row.what.starts_with(what)) continue;
    predicted.push_back(row.predicted_s);
    measured.push_back(row.measured_s);
  }
  return summarize(predicted, measured);
}

std::string report_text(const std::vector<Row>& rows, double others_cores) {
  TextTable table({{"model"},
                   {"what"},
                   {"predicted ms", Align::kRight},
                   {"measured ms", Align::kRight},
                   {"error", Align::kRight}});
  for (const Row& row : rows) {
    table.add_row({row.run, row.what, fmt::format("{:.3f}", row.predicted_s * 1e3),
                   fmt::format("{:.3f}", row.measured_s * 1e3),
                   fmt::format("{:+.1f} %", row.error_pct())});
  }
  std::string text = table.str();
  for (const char* what : {"TPOT", "TTFT", ""}) {
    const ErrorSummary errors = summary_of(rows, what);
    if (errors.n == 0) continue;
    text += fmt::format("{}: {} figures, mean error {:.1f} %, bias {:+.1f} %, worst {:+.1f} %\n",
                        *what == '\0' ? "all" : what, errors.n, errors.mean_abs_pct,
                        errors.bias_pct, errors.worst_pct);
  }
  return text + fmt::format("others used {:.2f} cores\n", others_cores);
}

nlohmann::ordered_json report_json(const std::vector<Row>& rows, const Cluster& cluster,
                                   double others_cores) {
  const ErrorSummary all = summary_of(rows, "");
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"kind", "bench_predict_serve"},
                                 {"calibrated", cluster.measured.source},
                                 {"others_cores", others_cores},
                                 {"n", all.n},
                                 {"mean_abs_error_pct", all.mean_abs_pct},
                                 {"bias_pct", all.bias_pct},
                                 {"worst_pct", all.worst_pct},
                                 {"figures", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) {
    json["figures"].push_back({{"model", row.run},
                               {"what", row.what},
                               {"predicted_s", row.predicted_s},
                               {"measured_s", row.measured_s},
                               {"error_pct", row.error_pct()},
                               {"frame",
                                {{"products_s", row.price.products_s},
                                 {"attention_s", row.price.attention_s},
                                 {"other_kernels_s", row.price.others_s},
                                 {"collectives_s", row.price.collectives_s},
                                 {"host_s", row.price.host_s}}}});
  }
  return json;
}

}  // namespace

int run_bench_predict_serve(const BenchPredictOptions& options, Console& console) {
  const Cluster cluster = measured_cluster(options);
  std::vector<ServedRun> runs;
  for (const NamedRun& named : read_named_runs(options.list)) runs.push_back(served_run(named));
  const OtherLoad others;
  std::vector<Row> rows;
  for (const ServedRun& run : runs) {
    if (!console.quiet) console.err << "running " << run.name << std::endl;
    predict_and_measure(run, cluster, rows);
  }
  const double others_cores = others.cores();
  if (options.json) {
    console.out << report_json(rows, cluster, others_cores).dump(2) << '\n';
  } else {
    console.out << fitted(console, report_text(rows, others_cores));
  }
  if (const std::string warning = load_warning(others_cores); !warning.empty()) {
    console.err << fitted_err(console, "warning: " + warning + '\n');
  }
  return 0;
}

}  // namespace tessera
