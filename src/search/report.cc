#include "search/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "search/neighbours.h"
#include "search/next_steps.h"
#include "search/runnable.h"
#include "spec/run_file/trainable.h"

namespace tessera {
namespace {

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
  if (report.outcome.stopped || !report.lacks_room()) return;
  SearchRequest part = request;
  part.workload = report.workload;
  const SearchOutcome& o = report.outcome;
  const SearchProgress at{o.groups, o.groups_done, o.configurations,
                          report.plans.empty() ? 0 : report.plans.front().plan.step_s()};
  add_runnable(report, {part, names, read, at}, progress);
}

}  // namespace

bool SearchReport::lacks_room() const {
  return untrainable_choice(model).empty() &&
         std::none_of(plans.begin(), plans.end(),
                      [](const RankedStrategy& ranked) { return ranked.can_run(); });
}

SearchReport search_report(const SearchRequest& asked, const ModelSpec& model,
                           const ReportOptions& options, const FileReader& read,
                           const OnProgress& progress) {
  SearchBudget budget;
  SearchRequest request = asked;
  if (request.budget == nullptr) request.budget = &budget;
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

}  // namespace tessera
