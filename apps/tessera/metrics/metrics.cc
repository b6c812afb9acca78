#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output_flags.h"
#include "cli/write_file.h"
#include "draw/curves_svg.h"
#include "metrics/metrics_command.h"
#include "watch/chart_text.h"
#include "watch/event_file.h"
#include "watch/metrics_report.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostRuns = 26;  // there are as many letters
constexpr int64_t kMostColumns = 10'000;
constexpr int kPipeColumns = 80;
constexpr int kFewestColumns = 40;

// A terminal would obey control characters in a name.
std::string shown_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return name;
}

// A folder stands for the metrics.jsonl in it.
fs::path metrics_file(const std::string& run) {
  std::error_code error;
  const fs::path path(run);
  if (fs::is_directory(path, error)) {
    const fs::path file = path / "metrics.jsonl";
    require_config(fs::exists(file, error),
                   "'{}' holds no metrics.jsonl: name the directory of a run, such as runs/demo",
                   run);
    return file;
  }
  require_config(fs::exists(path, error),
                 "'{}' does not exist: name the directory of a run, such as runs/demo", run);
  return path;
}

std::unique_ptr<std::istream> open_metrics(const std::string& run) {
  const fs::path path = metrics_file(run);
  std::error_code error;
  require_config(fs::is_regular_file(path, error), "'{}' is not a file of metrics", path.string());
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  require_config(file->good(), "cannot open '{}': {}", path.string(), std::strerror(errno));
  return file;
}

CurveX x_of(const std::string& word) {
  for (const CurveX x : {CurveX::kTokens, CurveX::kMinutes}) {
    if (name_of(x) == word) return x;
  }
  return CurveX::kStep;
}

MetricsQuery query_of(const MetricsOptions& options) {
  require_config(options.smooth < 1,
                 "--smooth is {}: it is what the past weighs, from 0 to below 1, such as 0.9",
                 options.smooth);
  return {.key = options.key, .x = x_of(options.x), .smooth = options.smooth};
}

void require_metrics(const RunMetrics& run) {
  if (run.steps > 0) return;
  require_config(run.num_bad == 0, "'{}' holds no metrics: line {} is passed over: {}", run.name,
                 run.bad.empty() ? 0 : run.bad.front().number,
                 run.bad.empty() ? "" : run.bad.front().why);
  throw ConfigError(fmt::format(
      "'{}' has no metrics yet: a run writes them every logging.every steps", run.name));
}

std::vector<RunMetrics> read_runs(const MetricsOptions& options, const MetricsQuery& query) {
  require_config(!options.runs.empty(), "metrics needs the directory of a run, such as runs/demo");
  require_config(static_cast<int64_t>(options.runs.size()) <= kMostRuns,
                 "{} runs are more than the {} that a chart can tell apart: name fewer",
                 options.runs.size(), kMostRuns);
  require_config(options.width <= kMostColumns, "--width is {}: use at most {}", options.width,
                 kMostColumns);
  std::vector<RunMetrics> runs;
  std::vector<std::string> keys;
  for (const std::string& name : options.runs) {
    runs.push_back(read_metrics(*open_metrics(name), name, query));
    require_metrics(runs.back());
    keys.insert(keys.end(), runs.back().keys.begin(), runs.back().keys.end());
  }
  put_usual_first(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  const std::vector<std::string_view> known(keys.begin(), keys.end());
  require_config(std::find(keys.begin(), keys.end(), query.key) != keys.end(),
                 "--key is '{}', which no line has: {}", query.key,
                 suggestion(query.key, known, "keys"));
  return runs;
}

bool shows_utf8(const Environment& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto found = environment.find(name);
    if (found == environment.end() || found->second.empty()) continue;
    const std::string value = lower_case(found->second);
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

// Curves go to standard output: whether that shows colours is not what Console::colored() says.
bool shows_color(const Console& console) {
  if (console.color != "auto") return console.color == "always";
  return console.out_is_terminal && console.color_wanted;
}

ChartOptions chart_options(const MetricsOptions& options, const Environment& environment,
                           const Console& console) {
  ChartOptions chart;
  chart.title = options.key;
  chart.x_name = options.x;
  chart.utf8 = shows_utf8(environment);
  chart.colored = shows_color(console);
  chart.logarithmic = options.logarithmic;
  const int terminal = static_cast<int>(console.out_columns);
  const int64_t columns = options.width > 0 ? options.width : terminal;
  chart.columns = columns > 0 ? std::max(kFewestColumns, static_cast<int>(columns)) : kPipeColumns;
  return chart;
}

std::vector<ChartSeries> series_of(const std::vector<RunMetrics>& runs) {
  std::vector<ChartSeries> series;
  series.reserve(runs.size());
  for (const RunMetrics& run : runs) series.push_back({run.name, run.curve.points()});
  return series;
}

void print_chart(const std::vector<RunMetrics>& runs, const MetricsQuery& query,
                 const ChartOptions& chart, Console& console) {
  const auto mark = [&](size_t i) {
    return marked(chart, i, runs.size(), shown_name(runs[i].name));
  };
  // The filter of `out` lets no colours through; names are without control characters.
  console.out.flush();
  std::ostream& out = console.raw_out != nullptr ? *console.raw_out : console.out;
  out << chart_text(series_of(runs), chart) << '\n';
  if (chart.colored) {  // a table counts what a terminal does not show
    for (size_t i = 0; i < runs.size(); ++i) out << mark(i) << '\n';
    out << '\n';
  }
  const std::string table = metrics_table(
      runs, query, [&](size_t i) { return chart.colored ? shown_name(runs[i].name) : mark(i); });
  out << fitted(console, table);
}

void write_svg(const MetricsOptions& options, const std::vector<RunMetrics>& runs,
               Console& console) {
  std::vector<ChartSeries> series = series_of(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].final_value.has_value()) {
      series[i].name += fmt::format(": {:.4g} at step {}", *runs[i].final_value,
                                    with_thousands(runs[i].last_step));
    }
  }
  const std::string title =
      runs.size() == 1 ? runs[0].name : fmt::format("{} of {} runs", options.key, runs.size());
  write_file(options.svg,
             curves_svg(series, {.title = title,
                                 .y_name = options.key,
                                 .x_name = options.x,
                                 .logarithmic = options.logarithmic}),
             console);
}

void write_csv(const MetricsOptions& options, const std::vector<RunMetrics>& runs,
               Console& console) {
  const OpenRun open = [&](size_t i) { return open_metrics(options.runs[i]); };
  if (options.csv == "-") return write_metrics_csv(runs, open, console.out);
  std::ofstream file(options.csv, std::ios::binary);
  require(file.good(), "cannot create '{}': {}", options.csv, std::strerror(errno));
  write_metrics_csv(runs, open, file);
  file.flush();
  require(file.good(), "cannot write '{}': {}", options.csv, std::strerror(errno));
  if (!console.quiet) console.err << "wrote " << options.csv << '\n';
}

// Several runs get a folder each, as TensorBoard tells runs apart; each is called as its own
// folder.
fs::path event_folder(const MetricsOptions& options, size_t run) {
  const fs::path target(options.tensorboard);
  if (options.runs.size() == 1) return target;
  const fs::path folder = metrics_file(options.runs[run]).lexically_normal().parent_path();
  std::string name = folder.filename().string();
  if (name.empty()) name = "run";
  const auto called_so = [&](size_t other) {
    return metrics_file(options.runs[other]).lexically_normal().parent_path().filename() == name;
  };
  size_t namesakes = 0;
  for (size_t i = 0; i < run; ++i) namesakes += called_so(i) ? 1 : 0;
  return target / (namesakes == 0 ? name : fmt::format("{}-{}", name, namesakes + 1));
}

void write_events(const MetricsOptions& options, size_t run, Console& console) {
  const fs::path folder = event_folder(options, run);
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, "cannot create '{}': {}", folder.string(), error.message());
  std::ofstream file;
  fs::path path;
  const std::unique_ptr<std::istream> in = open_metrics(options.runs[run]);
  (void)for_each_line(*in, [&](const MetricsLine& line) {
    const Scalars scalars = scalars_of(line);
    if (!line.event.empty() || scalars.values.empty()) return;
    if (!file.is_open()) {
      path = folder / event_file_name(scalars.time);
      file.open(path, std::ios::binary);
      require(file.good(), "cannot create '{}': {}", path.string(), std::strerror(errno));
      file << event_file_head(scalars.time);
    }
    file << event_record(scalars);
  });
  file.flush();
  require(file.good(), "cannot write '{}': {}", path.string(), std::strerror(errno));
  if (!console.quiet) console.err << "wrote " << path.string() << '\n';
}

}  // namespace

Command add_metrics(CLI::App& root, const Environment& environment) {
  CLI::App* app = add_command(root, "metrics",
                              {"Draw the curves of runs, also while they run, and compare them.",
                               "tessera metrics runs/demo runs/demo-2 --smooth 0.9",
                               "tessera metrics runs/demo --svg loss.svg"});
  auto options = std::make_shared<MetricsOptions>();
  add_list(*app, "runs", options->runs, "RUN...", "run directories (or files of metrics)");
  add_text(*app, "--key", options->key, "KEY",
           "what to draw: loss, lr, grad_norm, tokens_per_s, step_ms, mfu ... (default loss)");
  add_choice(*app, "--x", options->x, "step|tokens|minutes", "over what (default step)");
  add_real(*app, "--smooth", options->smooth, 0,
           "average in which the past weighs so much, 0 to below 1 (default 0)");
  add_switch(*app, "--log", options->logarithmic, "a logarithmic vertical axis");
  add_whole(*app, "--width", options->width, 20, "columns of the chart (default: the terminal's)");
  add_output_file(*app, "--svg", options->svg, kSvgOutput, "FILE", "also write it as a picture");
  add_output_file(*app, "--csv", options->csv, kCsvOrStdout, "FILE|-",
                  "write every line with every number; - prints it instead of the chart");
  add_output_folder(
      *app, "--tensorboard", options->tensorboard,
      "write an event file that TensorBoard reads; of several runs, in a folder each");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options, &environment](Console& console) {
            return run_metrics(*options, environment, console);
          }};
}

int run_metrics(const MetricsOptions& options, const Environment& environment, Console& console) {
  require_config(!options.json || options.csv != "-",
                 "--json and --csv - both go to standard output: give --csv a file");
  const MetricsQuery query = query_of(options);
  const std::vector<RunMetrics> runs = read_runs(options, query);
  for (const RunMetrics& run : runs) {
    for (const std::string& note : metrics_notes(run, query.key)) {
      console.err << fitted_err(console, shown_name("tessera: " + note)) << '\n';
    }
  }
  if (options.json) {
    nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}};
    json.update(metrics_json(runs, query));
    console.out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  } else if (options.csv != "-") {
    print_chart(runs, query, chart_options(options, environment, console), console);
  }
  if (!options.csv.empty()) write_csv(options, runs, console);
  if (!options.svg.empty()) write_svg(options, runs, console);
  for (size_t i = 0; i < runs.size() && !options.tensorboard.empty(); ++i) {
    write_events(options, i, console);
  }
  return 0;
}

}  // namespace tessera
