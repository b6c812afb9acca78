#include "search/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "plan/report/plan_json.h"
#include "search/deadline_report.h"
#include "search/neighbours.h"
#include "search/next_steps.h"
#include "search/runnable.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/trainable.h"

namespace tessera {
namespace {

constexpr int64_t kFrontLines = 20;
constexpr int64_t kMostGrowth = 64;  // times as many devices, when nothing fits

Candidate candidate_of(const SimulatedStrategy& plan) {
  return {plan.strategy, plan.step_s(), plan.peak_bytes()};
}

std::vector<SimulatedStrategy> simulate_all(const SearchRequest& request,
                                            const std::vector<Candidate>& kept, int64_t limit) {
  std::vector<Strategy> strategies;
  for (const Candidate& candidate : kept) strategies.push_back(candidate.strategy);
  std::vector<SimulatedStrategy> plans =
      simulate_strategies(request.workload, request.fixed, strategies, limit, request.threads);
  std::sort(plans.begin(), plans.end(),
            [&](const SimulatedStrategy& a, const SimulatedStrategy& b) {
              return is_better(request.objective, candidate_of(a), candidate_of(b));
            });
  return plans;
}

// Plans that another one beats in simulated time and in memory are left out.
std::vector<SimulatedStrategy> without_beaten(std::vector<SimulatedStrategy> plans) {
  std::sort(plans.begin(), plans.end(), [](const SimulatedStrategy& a, const SimulatedStrategy& b) {
    return is_better(Objective::kTime, candidate_of(a), candidate_of(b));
  });
  std::vector<SimulatedStrategy> front;
  for (SimulatedStrategy& plan : plans) {
    if (front.empty() || plan.peak_bytes() < front.back().peak_bytes()) {
      front.push_back(std::move(plan));
    }
  }
  return front;
}

bool fits_anywhere(SearchRequest request, const OnProgress& progress) {
  request.objective = Objective::kMemory;
  request.pareto = false;
  request.keep = 1;
  try {
    return !search_strategies(request, progress).best.empty();
  } catch (const ConfigError&) {
    return false;  // no split divides
  }
}

std::vector<std::string> remedies_for(const SearchRequest& request, const Candidate& nearest,
                                      const OnProgress& progress) {
  std::vector<std::string> remedies;
  remedies.push_back(fmt::format("devices with at least {:.1f} GiB",
                                 (static_cast<double>(nearest.peak_bytes) +
                                  request.workload.cluster.device.reserved_bytes.value) /
                                     kGibibyte));
  for (int64_t times = 2; times <= kMostGrowth; times *= 2) {
    SearchRequest more = request;
    more.workload.cluster.devices *= times;
    if (more.workload.cluster.devices > kMaxDevices) break;
    if (!fits_anywhere(more, progress)) continue;
    remedies.push_back(fmt::format("{} devices", with_thousands(more.workload.cluster.devices)));
    break;
  }
  for (int64_t part = 2; part <= kMostGrowth; part *= 2) {
    SearchRequest shorter = request;
    if (request.workload.seq_len % part != 0) break;
    shorter.workload.seq_len /= part;
    if (!fits_anywhere(shorter, progress)) continue;
    remedies.push_back(fmt::format("sequences of {} tokens", shorter.workload.seq_len));
    break;
  }
  return remedies;
}

// Fewer devices may do a step for less: whole halves of the cluster, down to one node.
std::vector<int64_t> device_counts(const SearchRequest& request) {
  const Cluster& cluster = request.workload.cluster;
  std::vector<int64_t> counts = {cluster.devices};
  if (request.objective != Objective::kCost) return counts;
  const int64_t least = std::min(cluster.node_devices(), cluster.devices);
  for (int64_t n = cluster.devices; n % 2 == 0 && n / 2 >= least; n /= 2) counts.push_back(n / 2);
  return counts;
}

double device_seconds(const SearchReport& report) {
  return report.plans.front().plan.step_s() * static_cast<double>(report.workload.cluster.devices);
}

// The part of the front that fits on a page: the fastest of each of so many equal steps of memory.
std::vector<const SimulatedStrategy*> readable(const std::vector<SimulatedStrategy>& front,
                                               int64_t most) {
  std::vector<const SimulatedStrategy*> shown;
  const bool all = static_cast<int64_t>(front.size()) <= most;
  const double least = static_cast<double>(front.back().peak_bytes());
  const double range = static_cast<double>(front.front().peak_bytes()) - least;
  int64_t before = -1;
  for (const SimulatedStrategy& plan : front) {
    const double height = static_cast<double>(plan.peak_bytes()) - least;
    // The smallest plan has a step of its own.
    const bool last = &plan == &front.back();
    const int64_t step =
        last ? most : static_cast<int64_t>(height / range * static_cast<double>(most - 1));
    if (all || step != before) shown.push_back(&plan);
    before = step;
  }
  return shown;
}

SearchReport report_of(const SearchRequest& request, const ModelSpec& model,
                       const ReportOptions& options, const OnProgress& progress) {
  SearchReport report;
  report.workload = request.workload;
  report.model = model;
  report.objective = request.objective;
  report.top = options.top;
  report.limit_bytes = usable_bytes(request.workload.cluster);
  report.outcome = search_strategies(request, progress);
  if (report.outcome.best.empty()) return report;
  std::vector<SimulatedStrategy> plans =
      simulate_all(request, report.outcome.best, report.limit_bytes);
  report.simulated = static_cast<int64_t>(plans.size());
  if (request.pareto) {
    // With stages that were chosen one by one a plan of the table may beat the front's own.
    std::vector<SimulatedStrategy> all =
        simulate_all(request, report.outcome.front, report.limit_bytes);
    all.insert(all.end(), plans.begin(), plans.end());
    report.front = without_beaten(std::move(all));
  }
  const auto top = std::min<int64_t>(std::ssize(plans), std::max<int64_t>(0, options.top));
  const auto shown = plans.begin() + static_cast<std::ptrdiff_t>(top);
  report.others.assign(shown, plans.end());
  plans.erase(shown, plans.end());
  StrategySimulator simulator(request.workload);
  for (SimulatedStrategy& plan : plans) {
    RankedStrategy ranked;
    ranked.number = report.plans.size() + 1;
    ranked.why = why_better(neighbours_of(simulator, request.fixed, plan, report.limit_bytes));
    ranked.plan = std::move(plan);
    report.plans.push_back(std::move(ranked));
  }
  return report;
}

bool can_run(const RankedStrategy& ranked) { return ranked.file.lacks.empty(); }

// None of the shown plans can be run, though there are Programs for the model: others may fit.
bool lacks_room(const SearchReport& report) {
  return untrainable_choice(report.model).empty() &&
         std::none_of(report.plans.begin(), report.plans.end(), can_run);
}

// The fewest devices, of twice, four times as many, that run it in some way.
int64_t devices_to_run(const RunnableRequest& request, const OnProgress& progress) {
  for (int64_t times = 2; times <= kMostGrowth; times *= 2) {
    SearchRequest more = request.search;
    more.workload.cluster.devices *= times;
    if (more.workload.cluster.devices > kMaxDevices) break;
    const RunnableRequest there{more, request.names, request.read, request.at};
    if (smallest_runnable(there, progress)) return more.workload.cluster.devices;
  }
  return 0;
}

// The same with one flag left out, for each that is given, and then with none.
std::vector<FixedAxes> freed_axes(const FixedAxes& fixed) {
  std::vector<FixedAxes> all;
  const auto free = [&](bool is_fixed, auto member) {
    if (!is_fixed) return;
    all.push_back(fixed);
    all.back().*member = FixedAxes().*member;
  };
  free(fixed.zero >= 0, &FixedAxes::zero);
  free(!fixed.recompute.empty(), &FixedAxes::recompute);
  free(!fixed.schedules.empty(), &FixedAxes::schedules);
  free(fixed.micro_batch > 0, &FixedAxes::micro_batch);
  free(fixed.cp > 0, &FixedAxes::cp);
  free(fixed.pp > 0, &FixedAxes::pp);
  free(fixed.tp > 0, &FixedAxes::tp);
  free(fixed.ep > 0, &FixedAxes::ep);
  free(fixed.dp > 0, &FixedAxes::dp);
  if (!all.empty() || fixed.system != nullptr) all.emplace_back();
  return all;
}

// What of the request must change for a plan that tessera train can run.
std::vector<std::string> ways_to_run(const RunnableRequest& request, const OnProgress& progress) {
  std::vector<std::string> ways;
  for (const FixedAxes& freed : freed_axes(request.search.fixed)) {
    SearchRequest open = request.search;
    open.fixed = freed;
    const RunnableRequest free{open, request.names, request.read, request.at};
    const auto found = smallest_runnable(free, progress);
    if (!found.has_value()) continue;
    ways.push_back(other_flags(request.search.fixed, found->plan.strategy));
    break;
  }
  if (const int64_t devices = devices_to_run(request, progress)) {
    ways.push_back(fmt::format("{} devices", with_thousands(devices)));
  }
  return ways;
}

void add_runnable(SearchReport& report, const RunnableRequest& request,
                  const OnProgress& progress) {
  std::vector<SimulatedStrategy> all;
  for (const RankedStrategy& ranked : report.plans) all.push_back(ranked.plan);
  all.insert(all.end(), report.others.begin(), report.others.end());
  std::optional<RunnablePlan> found = best_runnable(request, all, progress);
  if (!found.has_value()) {
    report.to_run = ways_to_run(request, progress);
    return;
  }
  const auto same = std::find_if(all.begin(), all.end(), [&](const SimulatedStrategy& plan) {
    return plan.strategy == found->plan.strategy;
  });
  StrategySimulator simulator(report.workload);
  std::string why =
      why_better(neighbours_of(simulator, request.search.fixed, found->plan, report.limit_bytes));
  const auto number = static_cast<size_t>(same - all.begin()) + 1;
  report.runnable =
      RankedStrategy{number, std::move(found->plan), std::move(why), std::move(found->file)};
}

void add_engine_files(SearchReport& report, const SearchRequest& request,
                      const ReportOptions& options, const FileReader& read,
                      const OnProgress& progress) {
  const EngineNames names{report.model, options.cluster};
  std::vector<Strategy> strategies;
  for (const RankedStrategy& ranked : report.plans) strategies.push_back(ranked.plan.strategy);
  std::vector<EngineFile> files =
      engine_files(names, report.workload, strategies, read, request.threads);
  for (size_t i = 0; i < files.size(); ++i) report.plans[i].file = std::move(files[i]);
  if (report.outcome.stopped || !lacks_room(report)) return;
  SearchRequest part = request;
  part.workload = report.workload;
  const SearchOutcome& o = report.outcome;
  const SearchProgress at{o.groups, o.groups_done, o.configurations,
                          report.plans.empty() ? 0 : report.plans.front().plan.step_s()};
  add_runnable(report, {part, names, read, at}, progress);
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.4g} s", seconds);
}

std::string gibibytes(int64_t bytes) {
  const double value = static_cast<double>(bytes) / kGibibyte;
  return value < 0.95 ? fmt::format("{:.2g}", value) : fmt::format("{:.1f}", value);
}

std::string split_text(const Strategy& s) {
  std::string text = fmt::format("tp {} pp {} dp {}", s.tp, s.pp, s.dp);
  if (s.cp > 1) text += fmt::format(" cp {} {}", s.cp, name_of(s.context));
  if (s.ep > 1) text += fmt::format(" ep {}", s.ep);
  if (s.expert_tp > 1) text += fmt::format(" etp {}", s.expert_tp);
  if (s.sequence_parallel) text += " sp";
  if (s.order != RankOrder::kTensorDataPipeline) text += fmt::format(" ({})", name_of(s.order));
  return text;
}

std::string schedule_text_of(const Strategy& s) {
  if (s.pp == 1) return "-";
  std::string text(name_of(s.schedule));
  if (schedule_kind(s.schedule).any_virtual_stages) text += fmt::format(" x{}", s.virtual_stages);
  if (!s.stage_layers.empty()) text += " uneven";
  return text;
}

std::string sharding_text(const Strategy& s) {
  if (s.zero == 0) return "-";
  std::string text = fmt::format("ZeRO-{}", s.zero);
  if (s.shard > 0) text += fmt::format("/{}", s.shard);
  if (s.zero == 3 && !s.release_after_forward) text += " keep";
  return text;
}

std::string recompute_text_of(const Strategy& s) {
  if (s.recompute != Recompute::kFull) return std::string(name_of(s.recompute));
  if (!s.stage_recompute.empty()) {
    int64_t layers = 0, stages = 0;
    for (const int64_t again : s.stage_recompute) {
      layers += again;
      stages += again > 0 ? 1 : 0;
    }
    return fmt::format("{} layer{} of {} stage{}", layers, layers == 1 ? "" : "s", stages,
                       stages == 1 ? "" : "s");
  }
  return s.recompute_layers < 0 ? "full" : fmt::format("full {} a rank", s.recompute_layers);
}

std::string exposed_text(const StepTime& time) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < kNumCommAxes; ++i) {
    if (time.exposed_s[i] < 5e-4 * time.step_s) continue;
    parts.push_back(fmt::format("{} {:.1f}%", name_of(static_cast<CommAxis>(i)),
                                100 * time.exposed_s[i] / time.step_s));
  }
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, " "));
}

std::string percent(double part, double whole) {
  return fmt::format("{:.1f}%", 100 * part / whole);
}

// "-3.1 %"; what rounds to nothing has no sign.
std::string change_text(double percent) {
  return percent > -0.05 && percent < 0.05 ? "0.0 %" : fmt::format("{:+.1f} %", percent);
}

// The column of our Programs is there where somebody has asked for them.
TextTable plan_table(bool with_engine) {
  std::vector<TextTable::Column> columns = {{"", Align::kRight},        {"split", Align::kLeft},
                                            {"schedule", Align::kLeft}, {"micro", Align::kRight},
                                            {"states", Align::kLeft},   {"recompute", Align::kLeft},
                                            {"GiB", Align::kRight}};
  if (with_engine) columns.push_back({"train", Align::kRight});
  for (const TextTable::Column& column :
       {TextTable::Column{"step", Align::kRight}, TextTable::Column{"kernels", Align::kRight},
        TextTable::Column{"exposed", Align::kLeft}, TextTable::Column{"bubble", Align::kRight},
        TextTable::Column{"MFU", Align::kRight}}) {
    columns.push_back(column);
  }
  return TextTable(std::move(columns));
}

// `file`: nullptr in a table without the engine.
void add_plan(TextTable& table, size_t number, const SimulatedStrategy& plan,
              const EngineFile* file) {
  const Strategy& s = plan.strategy;
  const StepTime& time = plan.estimate.time;
  std::vector<std::string> cells = {
      std::to_string(number),        split_text(s),    schedule_text_of(s),
      std::to_string(s.micro_batch), sharding_text(s), recompute_text_of(s),
      gibibytes(plan.peak_bytes())};
  if (file != nullptr) {
    cells.push_back(file->peak_bytes > 0 ? gibibytes(file->peak_bytes) : "-");
  }
  for (std::string cell :
       {seconds_text(time.step_s), percent(time.compute_s + time.optimizer_s, time.step_s),
        exposed_text(time), percent(time.bubble_s, time.step_s), percent(plan.estimate.mfu, 1)}) {
    cells.push_back(std::move(cell));
  }
  table.add_row(std::move(cells));
}

std::string head_text(const SearchReport& report) {
  const Workload& w = report.workload;
  const SearchOutcome& o = report.outcome;
  std::string text = fmt::format(
      "{} on {} x {} ({}{}), {} sequences of {} tokens\n"
      "{} configurations of {} splits in {} groups, {} prices, {} simulations{}\n",
      report.model.preset, with_thousands(w.cluster.devices), w.cluster.device.name,
      !report.counts.empty() && report.counts.front().devices > w.cluster.devices ? "of " : "",
      w.cluster.name, with_thousands(w.global_batch), with_thousands(w.seq_len),
      with_thousands(o.configurations), with_thousands(o.splits), with_thousands(o.groups),
      with_thousands(o.priced), with_thousands(report.simulated),
      o.stopped ? fmt::format("; stopped after {} groups", with_thousands(o.groups_done)) : "");
  return text;
}

std::string rejected_text(const SearchReport& report) {
  TextTable table({{"left out", Align::kRight}, {"because", Align::kLeft}});
  for (const SplitRejection& rejection : report.outcome.splits_rejected) {
    table.add_row({fmt::format("{} splits", with_thousands(rejection.splits)), rejection.reason});
  }
  for (size_t i = 0; i < kNumRejected; ++i) {
    if (report.outcome.rejected[i] == 0) continue;
    table.add_row({with_thousands(report.outcome.rejected[i]),
                   std::string(reason_of(static_cast<Rejected>(i)))});
  }
  return table.str();
}

// What a step costs on the cluster and on its parts, and at what price.
std::string cost_text(const SearchReport& report) {
  const Constant& price = report.workload.cluster.usd_per_device_hour;
  TextTable table({{"devices", Align::kRight},
                   {"step", Align::kRight},
                   {"device-seconds", Align::kRight},
                   {"USD", Align::kRight}});
  for (const DeviceCount& count : report.counts) {
    table.add_row({with_thousands(count.devices), seconds_text(count.step_s),
                   fmt::format("{:.4g}", count.device_seconds()),
                   price.value > 0
                       ? fmt::format("{:.4g}", count.device_seconds() / 3600 * price.value)
                       : "-"});
  }
  const std::string assumed =
      price.value > 0
          ? fmt::format("at {:g} USD for a device and hour ({}); --usd-per-hour gives another",
                        price.value, price.source)
          : "no price is known: --usd-per-hour gives one";
  return fmt::format("\nwhat a step costs, {}\n{}", assumed, table.str());
}

std::string misfit_text(const SearchReport& report) {
  if (report.outcome.stopped) return "stopped before a plan was found that fits\n";
  std::string text = report.runnable ? "nothing fits by the cost model" : "nothing fits";
  if (report.outcome.nearest.has_value()) {
    const Candidate& nearest = *report.outcome.nearest;
    text += fmt::format(
        ": the nearest plan ({}, micro-batch {}, {}, recompute {}) needs {} GiB of {} GiB",
        split_text(nearest.strategy), nearest.strategy.micro_batch, sharding_text(nearest.strategy),
        recompute_text_of(nearest.strategy), gibibytes(nearest.peak_bytes),
        gibibytes(report.limit_bytes));
  }
  text += "\n";
  if (!report.remedies.empty()) {
    text += fmt::format("it would fit with {}\n", fmt::join(report.remedies, ", or with "));
  }
  return text;
}

// What `tessera train` can run as it is, and what it lacks for the rest.
std::string engine_text(const SearchReport& report) {
  std::string lacks, text;
  for (const RankedStrategy& ranked : report.plans) {
    if (can_run(ranked)) continue;
    lacks += fmt::format("{:>3}  {}\n", ranked.number, ranked.file.lacks);
  }
  if (!lacks.empty()) text += "\nwhat tessera train lacks for them\n" + lacks;
  if (report.runnable.has_value()) {
    const RankedStrategy& ranked = *report.runnable;
    TextTable table = plan_table(true);
    add_plan(table, ranked.number, ranked.plan, &ranked.file);
    text +=
        fmt::format("\nthe best that tessera train can run\n{}why: {}\n", table.str(), ranked.why);
  } else if (lacks_room(report)) {
    text += "\n" + no_run_text(report);
  }
  return text;
}

nlohmann::ordered_json strategy_json(const Strategy& s) {
  nlohmann::ordered_json json = {{"tp", s.tp},
                                 {"pp", s.pp},
                                 {"dp", s.dp},
                                 {"cp", s.cp},
                                 {"cp_kind", name_of(s.context)},
                                 {"ep", s.ep},
                                 {"expert_tp", s.expert_tp},
                                 {"sequence_parallel", s.sequence_parallel},
                                 {"rank_order", name_of(s.order)},
                                 {"schedule", name_of(s.schedule)},
                                 {"virtual_stages", s.virtual_stages},
                                 {"stage_layers", s.stage_layers},
                                 {"micro_batch", s.micro_batch},
                                 {"zero", s.zero},
                                 {"shard", s.shard},
                                 {"release_after_forward", s.release_after_forward},
                                 {"recompute", name_of(s.recompute)},
                                 {"recompute_layers", s.recompute_layers},
                                 {"stage_recompute", s.stage_recompute}};
  return json;
}

nlohmann::ordered_json strategy_json(const SimulatedStrategy& plan) {
  return {{"strategy", strategy_json(plan.strategy)},   {"peak_bytes", plan.peak_bytes()},
          {"peak_gb", gigabytes_of(plan.peak_bytes())}, {"time", time_json(plan.estimate.time)},
          {"rates", rates_json(plan.estimate)},         {"closed_form_s", plan.closed_form_s}};
}

nlohmann::ordered_json ranked_json(const RankedStrategy& ranked) {
  nlohmann::ordered_json json = strategy_json(ranked.plan);
  json["number"] = ranked.number;
  json["why"] = ranked.why;
  json["engine_lacks"] = ranked.file.lacks;
  if (ranked.file.peak_bytes > 0) json["engine_peak_bytes"] = ranked.file.peak_bytes;
  json["plan_flags"] = ranked.file.plan_flags;
  if (ranked.file.plan_step_s > 0) json["plan_step_s"] = ranked.file.plan_step_s;
  return json;
}

}  // namespace

SearchReport search_report(const SearchRequest& request, const ModelSpec& model,
                           const ReportOptions& options, const FileReader& read,
                           const OnProgress& progress) {
  SearchReport best;
  std::vector<DeviceCount> counts;
  for (const int64_t devices : device_counts(request)) {
    SearchRequest part = request;
    part.workload.cluster.devices = devices;
    SearchReport report = report_of(part, model, options, progress);
    const bool is_first =
        best.workload.cluster.devices == 1 && best.plans.empty() && best.outcome.groups == 0;
    const bool is_cheaper = !report.plans.empty() &&
                            (best.plans.empty() || device_seconds(report) < device_seconds(best));
    const bool stopped = report.outcome.stopped;
    if (!report.plans.empty()) counts.push_back({devices, report.plans.front().plan.step_s()});
    if (is_first || is_cheaper) best = std::move(report);
    if (stopped) break;
  }
  if (request.objective == Objective::kCost) best.counts = std::move(counts);
  best.cluster = options.cluster;
  best.engine = options.engine;
  best.command = options.command;
  add_engine_files(best, request, options, read, progress);
  if (best.outcome.stopped) return best;
  if (best.plans.empty() && best.outcome.nearest.has_value()) {
    best.remedies = remedies_for(request, *best.outcome.nearest, progress);
  }
  // Who asks for the smallest plan does not ask for its step.
  const bool asks_for_step = request.objective != Objective::kMemory;
  if (options.sensitivity && asks_for_step && !best.plans.empty()) {
    best.sensitivities = sensitivities_of(best.workload, request.fixed, best.plans.front().plan);
  }
  return best;
}

std::string to_text(const SearchReport& report) {
  std::string text;
  if (report.deadline.has_value()) {
    text = deadline_text(*report.deadline, report.workload.cluster.usd_per_device_hour) + "\n";
    if (report.deadline->devices == 0) return text;
  }
  text += head_text(report);
  if (report.plans.empty()) {
    return text + "\n" + misfit_text(report) + engine_text(report) + "\n" + rejected_text(report) +
           next_text(report);
  }
  TextTable table = plan_table(true);
  for (const RankedStrategy& ranked : report.plans) {
    add_plan(table, ranked.number, ranked.plan, &ranked.file);
  }
  text += fmt::format(
      "\n{}\nGiB of {} that a device has for tensors; train: GiB of tessera train's own Programs; "
      "kernels with the optimizer\n",
      table.str(), gibibytes(report.limit_bytes));
  if (!report.counts.empty()) text += cost_text(report);
  text += "\nwhy, beside what differs in one choice\n";
  for (size_t i = 0; i < report.plans.size(); ++i) {
    text += fmt::format("{:>3}  {}\n", i + 1, report.plans[i].why);
  }
  text += flags_text(report) + engine_text(report);
  if (!report.front.empty()) {
    TextTable front = plan_table(false);
    const std::vector<const SimulatedStrategy*> shown =
        readable(report.front, std::max<int64_t>(kFrontLines, report.top));
    for (size_t i = 0; i < shown.size(); ++i) add_plan(front, i + 1, *shown[i], nullptr);
    const std::string some =
        shown.size() == report.front.size()
            ? ""
            : fmt::format(", {} of {} (--json has all)", shown.size(), report.front.size());
    text += fmt::format("\ntime against memory: no plan is both faster and smaller{}\n{}", some,
                        front.str());
  }
  if (!report.sensitivities.empty()) {
    text += "\nwhat would change the best plan's step\n";
    for (const Sensitivity& s : report.sensitivities) {
      text += fmt::format("  {}: {}{}\n", s.change, change_text(s.change_pct),
                          s.moves.empty() ? "" : fmt::format(" (with {})", s.moves));
    }
  }
  return text + "\n" + rejected_text(report) + next_text(report);
}

nlohmann::ordered_json to_json(const SearchReport& report) {
  const SearchOutcome& o = report.outcome;
  nlohmann::ordered_json json = {{"schema_version", kPlanSchemaVersion},
                                 {"kind", "search"},
                                 {"model", report.model.preset},
                                 {"cluster", report.workload.cluster.name},
                                 {"devices", report.workload.cluster.devices},
                                 {"seq_len", report.workload.seq_len},
                                 {"global_batch", report.workload.global_batch},
                                 {"objective", name_of(report.objective)},
                                 {"memory_limit_bytes", report.limit_bytes},
                                 {"memory_limit_gb", gigabytes_of(report.limit_bytes)},
                                 {"splits", o.splits},
                                 {"groups", o.groups},
                                 {"groups_done", o.groups_done},
                                 {"configurations", o.configurations},
                                 {"priced", o.priced},
                                 {"simulated", report.simulated},
                                 {"stopped", o.stopped}};
  json["plans"] = nlohmann::ordered_json::array();
  for (const RankedStrategy& ranked : report.plans) json["plans"].push_back(ranked_json(ranked));
  if (report.runnable.has_value()) json["best_runnable"] = ranked_json(*report.runnable);
  json["runnable_with"] = report.to_run;
  json["pareto"] = nlohmann::ordered_json::array();
  for (const SimulatedStrategy& plan : report.front) json["pareto"].push_back(strategy_json(plan));
  if (!report.counts.empty()) {
    const Constant& price = report.workload.cluster.usd_per_device_hour;
    json["usd_per_device_hour"] = {{"value", price.value}, {"source", price.source}};
    json["costs"] = nlohmann::ordered_json::array();
    for (const DeviceCount& count : report.counts) {
      json["costs"].push_back({{"devices", count.devices},
                               {"step_s", count.step_s},
                               {"device_seconds", count.device_seconds()},
                               {"usd", count.device_seconds() / 3600 * price.value}});
    }
  }
  json["sensitivity"] = nlohmann::ordered_json::array();
  for (const Sensitivity& s : report.sensitivities) {
    json["sensitivity"].push_back(
        {{"change", s.change}, {"step_change_pct", s.change_pct}, {"moves", s.moves}});
  }
  json["rejected"] = nlohmann::ordered_json::array();
  for (const SplitRejection& r : o.splits_rejected) {
    json["rejected"].push_back({{"reason", r.reason}, {"splits", r.splits}});
  }
  for (size_t i = 0; i < kNumRejected; ++i) {
    json["rejected"].push_back(
        {{"reason", reason_of(static_cast<Rejected>(i))}, {"configurations", o.rejected[i]}});
  }
  if (o.nearest.has_value()) {
    json["nearest"] = {{"strategy", strategy_json(o.nearest->strategy)},
                       {"peak_bytes", o.nearest->peak_bytes}};
  }
  json["remedies"] = report.remedies;
  if (report.deadline.has_value()) json["deadline"] = deadline_json(*report.deadline);
  return json;
}

}  // namespace tessera
