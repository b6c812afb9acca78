#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/output_flags.h"
#include "cli/surroundings.h"
#include "cli/write_file.h"
#include "search/search_command.h"
#include "spec/emit/system_rules.h"

namespace tessera {
namespace {

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
    const std::string text = fmt::format("[{:{}}] | {} | {} configurations",
                                         std::string(static_cast<size_t>(filled), '#'), kWidth,
                                         best, with_thousands(progress.configurations));
    console_.err << "\r" << one_line(console_, text) << "\033[K" << std::flush;
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

// What a run file was found by, and what was promised of it.
std::string file_head(const SearchReport& report, const RankedStrategy& ranked) {
  constexpr double kGibibytes = 1024.0 * 1024.0 * 1024.0;
  return fmt::format(
      "# Plan {} of: {}\n"
      "# tessera {}: step {:.4g} s by the search, {:.4g} s by tessera plan; {:.1f} GiB of {:.1f} "
      "GiB "
      "a rank\n\n",
      ranked.number, report.command, TESSERA_VERSION, ranked.plan.step_s(), ranked.file.plan_step_s,
      static_cast<double>(ranked.file.peak_bytes) / kGibibytes,
      static_cast<double>(report.limit_bytes) / kGibibytes);
}

// The files that were written.
int write_run_files(const SearchReport& report, const std::string& folder, Console& console) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, "cannot create '{}': {}", folder, error.message());
  std::vector<std::string> written;
  const auto write = [&](const RankedStrategy& ranked) {
    if (!ranked.file.lacks.empty()) return;
    const fs::path path = fs::path(folder) / fmt::format("plan-{:02}.toml", ranked.number);
    write_file(path.string(), file_head(report, ranked) + ranked.file.toml, console);
    written.push_back(path.string());
  };
  for (const RankedStrategy& ranked : report.plans) write(ranked);
  if (report.runnable.has_value()) write(*report.runnable);
  if (!console.quiet && written.empty()) {
    console.err << "no run file: tessera train can run none of these plans\n";
  } else if (!console.quiet) {
    console.err << fmt::format("next: tessera train {} --dry-run\n", written.front());
  }
  return static_cast<int>(written.size());
}

}  // namespace

namespace {

// Nothing that says how a training step is split has a place there.
int search_served(const SearchOptions& options, Console& console) {
  const SearchQuery& query = options.query;
  require_config(query.model.empty() && query.recipe.empty() && query.global_batch == 0 &&
                     query.seq_len == 0 && query.tp == 0 && query.pp == 0 && query.dp == 0 &&
                     query.cp == 0 && query.ep == 0 && options.out.empty(),
                 "--serve searches for a model that is served: leave out --model, --recipe, "
                 "--global-batch, --seq-len, sizes of the mesh and --out");
  SearchServeFlags flags = options.serve;
  flags.plan.cluster = query.cluster;
  return run_search_serve(flags, query.top, options.json, console);
}

}  // namespace

Command add_search(CLI::App& root) {
  CLI::App* app = add_command(
      root, "search",
      {"Find the best way to split a training step over a cluster.",
       "tessera search --model llama-3-70b --cluster a100-256 --global-batch 512 --seq-len "
       "4096",
       "tessera search --model llama-2-7b --cluster pc-4x24-8 --global-batch 64 --seq-len 4096 "
       "--out plans"});
  auto options = std::make_shared<SearchOptions>();
  SearchQuery& query = options->query;
  add_text(*app, "--model", query.model, "NAME|DIR",
           "a model: see tessera presets; or a .toml file, or a Hugging Face folder");
  add_text(*app, "--cluster", query.cluster, "NAME|FILE",
           "a cluster: a100-256 is 256 devices of the entry a100");
  add_text(*app, "--recipe", query.recipe, "NAME|FILE",
           "model, cluster, batch and sequence of a published recipe: see tessera presets recipes");
  add_text(*app, "--engine", query.engine, "NAME|FILE",
           "whose time and memory: see tessera presets engines (default tessera)");
  add_batch(*app, "--global-batch", query.global_batch, query.batch_tokens,
            "sequences of a step, or tokens: 4Mtok");
  add_length(*app, "--seq-len", query.seq_len, "tokens of a sequence; 8k is 8192");
  add_choice(*app, "--objective", query.objective, "time|memory|cost",
             "what to make least (default time); cost: device-seconds, also with fewer devices");
  add_whole(*app, "--top", query.top, 1, "how many plans to show (default 20)");
  add_switch(*app, "--pareto", query.pareto, "also the plans between least time and memory");
  add_real(*app, "--usd-per-hour", query.usd_per_hour, 0,
           "price of a device (default: the cluster's)");
  add_choice(*app, "--attention", query.attention, "flash|unfused", "kernels (default flash)");
  add_whole(*app, "--tp", query.tp, 1, "only this tp; so --pp, --dp, --cp, --ep");
  add_whole(*app, "--pp", query.pp, 1, "only this pp");
  add_whole(*app, "--dp", query.dp, 1, "only this dp");
  add_whole(*app, "--cp", query.cp, 1, "only this cp");
  add_whole(*app, "--ep", query.ep, 1, "only this ep");
  add_whole(*app, "--micro-batch", query.micro_batch, 1, "only this micro-batch");
  add_whole(*app, "--zero", query.zero, 0, "only this ZeRO stage");
  add_text(*app, "--schedule", query.schedule, "NAME,…", "only these: 1f1b, interleaved, zb-v, …");
  add_text(*app, "--recompute", query.recompute, "KIND,…",
           "only these: none, selective, full (every layer), some (as memory asks for)");
  add_choice(*app, "--for", query.system, system_names(),
             "only what that system's settings can say: tessera plan --emit");
  add_real(*app, "--deadline", query.deadline, 0,
           "with --tokens: the fewest devices that end in so many days");
  add_count(*app, "--tokens", query.tokens, "of the whole training, for --deadline: 1T, 15.6e12");
  add_whole(*app, "--threads", query.threads, 1, "threads (default: all cores)");
  add_search_serve(*app, options->serve);
  add_output_folder(*app, "--out", options->out, "write run files of the plans to a folder");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_search(*options, console); }};
}

int run_search(const SearchOptions& options, Console& console) {
  if (!options.serve.plan.model.empty()) return search_served(options, console);
  refuse_search_serve(options.serve);
  const InterruptGuard interrupt;
  SearchProgressLine line(console);
  Surroundings around = console_surroundings();
  around.progress = [&](const SearchProgress& at) {
    line.show(at);
    return !interrupt.interrupted();
  };
  SearchReport report = search(options.query, around);
  report.writes_files = !options.out.empty();
  line.finish();
  console.out << (options.json ? to_json(report).dump(2) + '\n' : fitted(console, to_text(report)));
  const int files = options.out.empty() ? 1 : write_run_files(report, options.out, console);
  if (interrupt.interrupted()) return kSignalCode + interrupt.signal();
  const bool fits = !report.plans.empty() || report.runnable.has_value();
  return static_cast<int>(fits && files > 0 ? ExitCode::kOk : ExitCode::kDoesNotFit);
}

}  // namespace tessera
