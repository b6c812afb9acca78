#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/read_text.h"
#include "cli/write_file.h"
#include "commands.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "search/report.h"
#include "search/search_request.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

// Kept for simulation: closed forms are kinder to some schedules than a simulation is.
constexpr int64_t kLeastKept = 256;

Objective objective_of(const std::string& name) {
  if (name == "memory") return Objective::kMemory;
  return name == "cost" ? Objective::kCost : Objective::kTime;
}

// A line on a terminal that is drawn again, ten times a second at most.
class SearchProgressLine {
 public:
  explicit SearchProgressLine(Console& console) : console_(console) {}
  ~SearchProgressLine() { finish(); }
  SearchProgressLine(const SearchProgressLine&) = delete;
  SearchProgressLine& operator=(const SearchProgressLine&) = delete;

  void show(const SearchProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const bool last = progress.groups_done == progress.groups;
    if (console_.quiet || !console_.err_is_terminal) return;
    if (!last && now - shown_at_ < std::chrono::milliseconds(100)) return;
    shown_at_ = now;
    constexpr int64_t kWidth = 30;
    const int64_t filled = progress.groups_done * kWidth / std::max<int64_t>(1, progress.groups);
    const std::string best =
        progress.best_step_s > 0 ? fmt::format("best {:.4g} s", progress.best_step_s) : "none fits";
    console_.err << fmt::format("\r[{:{}}] {} configurations, {}\033[K",
                                std::string(static_cast<size_t>(filled), '#'), kWidth,
                                with_thousands(progress.configurations), best)
                 << std::flush;
    is_open_ = true;
  }
  void finish() {
    if (is_open_) console_.err << "\r\033[K" << std::flush;
    is_open_ = false;
  }

 private:
  Console& console_;
  std::chrono::steady_clock::time_point shown_at_;
  bool is_open_ = false;
};

void write_run_files(const SearchReport& report, const std::string& folder, Console& console) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, "cannot create '{}': {}", folder, error.message());
  bool wrote = false;
  const auto write = [&](const RankedPlan& ranked) {
    if (!ranked.file.lacks.empty()) return;
    const fs::path path = fs::path(folder) / fmt::format("plan-{:02}.toml", ranked.number);
    write_file(path.string(), ranked.file.toml, console);
    wrote = true;
  };
  for (const RankedPlan& ranked : report.plans) write(ranked);
  if (report.runnable.has_value()) write(*report.runnable);
  if (!wrote && !console.quiet) {
    console.err << "no run file: tessera train can run none of these plans\n";
  }
}

}  // namespace

SearchRequest search_request(const SearchCommandOptions& options, const ModelSpec& model) {
  SearchRequest request;
  request.workload.model = shape_of(model, options.seq_len);
  request.workload.cluster = find_cluster(options.cluster, read_text);
  request.workload.engine = find_engine(options.engine, read_text).numbers;
  if (options.usd_per_hour >= 0) {
    request.workload.cluster.usd_per_device_hour = {options.usd_per_hour, Provenance::kDefault,
                                                    "--usd-per-hour"};
  }
  request.workload.seq_len = options.seq_len;
  request.workload.global_batch = options.global_batch;
  request.workload.loss_chunk = TrainSpec().loss_chunk;  // as the run files of plans have it
  if (options.attention == "unfused") request.workload.attention = AttentionKind::kUnfused;
  request.objective = objective_of(options.objective);
  request.pareto = options.pareto;
  request.fixed = {options.tp, options.pp,          options.dp,  options.cp,
                   options.ep, options.micro_batch, options.zero};
  request.keep = std::max(kLeastKept, 2 * options.top);
  request.threads = static_cast<int>(
      options.threads > 0 ? options.threads
                          : std::clamp<unsigned>(std::thread::hardware_concurrency(), 1, 64));
  return request;
}

Command add_search(CLI::App& root) {
  CLI::App* app = root.add_subcommand("search");
  set_help(
      *app,
      {"Find the best way to split a training step over a cluster.",
       "tessera search --model llama-3-70b --cluster a100-256 --global-batch 512 --seq-len "
       "4096",
       "tessera search --model llama-2-7b --cluster pc-4x24-8 --global-batch 64 --seq-len 4096 "
       "--out plans"});
  auto options = std::make_shared<SearchCommandOptions>();
  add_text(*app, "--model", options->model, "NAME|FILE", "a model: see tessera presets");
  add_text(*app, "--cluster", options->cluster, "NAME|FILE",
           "a cluster: a100-256 is 256 devices of the entry a100");
  add_text(*app, "--engine", options->engine, "NAME|FILE",
           "whose time and memory: see tessera presets engines (default tessera)");
  add_whole(*app, "--global-batch", options->global_batch, 1, "sequences of a step");
  add_whole(*app, "--seq-len", options->seq_len, 1, "tokens of a sequence");
  add_choice(*app, "--objective", options->objective, "time|memory|cost",
             "what to make least (default time); cost: device-seconds, also with fewer devices");
  add_whole(*app, "--top", options->top, 1, "how many plans to show (default 20)");
  add_switch(*app, "--pareto", options->pareto, "also the plans between least time and memory");
  add_real(*app, "--usd-per-hour", options->usd_per_hour, 0,
           "price of a device (default: the cluster's)");
  add_choice(*app, "--attention", options->attention, "flash|unfused", "kernels (default flash)");
  add_whole(*app, "--tp", options->tp, 1, "only this tp; so --pp, --dp, --cp, --ep");
  add_whole(*app, "--pp", options->pp, 1, "only this pp");
  add_whole(*app, "--dp", options->dp, 1, "only this dp");
  add_whole(*app, "--cp", options->cp, 1, "only this cp");
  add_whole(*app, "--ep", options->ep, 1, "only this ep");
  add_whole(*app, "--micro-batch", options->micro_batch, 1, "only this micro-batch");
  add_whole(*app, "--zero", options->zero, 0, "only this ZeRO stage");
  add_whole(*app, "--threads", options->threads, 1, "threads (default: all cores)");
  add_text(*app, "--out", options->out, "DIR", "write run files of the plans to a folder");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_search(*options, console); }};
}

int run_search(const SearchCommandOptions& options, Console& console) {
  require_config(!options.model.empty(), "no model given: add --model llama-3-8b");
  require_config(!options.cluster.empty(), "no cluster given: add --cluster h100-64");
  require_config(options.global_batch > 0, "no batch given: add --global-batch 512");
  require_config(options.seq_len > 0, "no sequence length given: add --seq-len 8192");
  require_config(options.top <= 10'000, "--top is {}: use 1 to 10000", options.top);
  require_config(options.usd_per_hour <= 1e6, "--usd-per-hour is {}: use 0 to 1e6",
                 options.usd_per_hour);
  require_config(options.zero <= 3, "--zero is {}: use 0 to 3", options.zero);
  ModelSpec model = find_model(options.model, read_text).model;
  model.preset = options.model;
  const SearchRequest request = search_request(options, model);
  const InterruptGuard interrupt;
  SearchProgressLine line(console);
  const SearchReport report =
      search_report(request, model, {options.top, true}, read_text, [&](const SearchProgress& at) {
        line.show(at);
        return !interrupt.interrupted();
      });
  line.finish();
  if (options.json) {
    nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}};
    json.update(to_json(report));
    console.out << json.dump(2) << '\n';
  } else {
    console.out << to_text(report);
  }
  if (!options.out.empty()) write_run_files(report, options.out, console);
  if (interrupt.interrupted()) return kSignalCode + interrupt.signal();
  return static_cast<int>(report.plans.empty() ? ExitCode::kDoesNotFit : ExitCode::kOk);
}

}  // namespace tessera
