#include "search/runnable.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "search/in_parallel.h"

namespace tessera {
namespace {

constexpr size_t kRound = 16;           // of cells that are looked at together
constexpr int kMostTries = 3;           // of one cell, each with less memory than the one before
constexpr int64_t kCells = 256;         // of a search of its own
constexpr int64_t kSmallest = 16;       // of a search for the smallest plans
constexpr double kMostModelled = 1.25;  // times the memory, by the cost model, that may still fit

// What the work depends on, with the schedule.
using Cell =
    std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, PipelineKind, int64_t>;
Cell cell_of(const Strategy& s) {
  return {s.tp, s.pp, s.dp, s.cp, s.ep, s.micro_batch, s.schedule, s.virtual_stages};
}

// Only this cell, and only what run files can say of it.
FixedAxes fixed_to_cell(FixedAxes fixed, const Strategy& s) {
  fixed.tp = s.tp;
  fixed.pp = s.pp;
  fixed.dp = s.dp;
  fixed.cp = s.cp;
  fixed.ep = s.ep;
  fixed.micro_batch = s.micro_batch;
  fixed.sayable = true;
  if (s.pp > 1) {
    fixed.schedules = {s.schedule};
    fixed.virtual_stages = s.virtual_stages;
  }
  return fixed;
}

// Cells for which the cost model is off alike.
using Kind = std::pair<PipelineKind, int64_t>;
Kind kind_of(const Strategy& s) { return {s.schedule, s.ep}; }

// What came of one cell.
struct Fitted {
  std::optional<RunnablePlan> plan;
  std::vector<double> shares;  // bytes of Programs, of the cost model's
};

// Looks at cells one after the other, each until its Programs fit or nothing of it can. What rounds
// have learnt changes between them only, so threads change nothing.
class CellSearch {
 public:
  explicit CellSearch(const RunnableRequest& request)
      : request_(request),
        limit_(static_cast<double>(usable_bytes(request.search.workload.cluster))),
        planners_(static_cast<size_t>(request.search.threads)) {}

  // `order`: best first.
  void look_at(const std::vector<Candidate>& order, const OnProgress& progress) {
    std::vector<Candidate> cells;
    for (const Candidate& candidate : order) {
      if (seen_.insert(cell_of(candidate.strategy)).second) cells.push_back(candidate);
    }
    for (size_t begin = 0; begin < cells.size(); begin += kRound) {
      if (beats(cells[begin])) break;
      if (progress && !progress(request_.at)) break;
      const size_t end = std::min(begin + kRound, cells.size());
      std::vector<Fitted> found(end - begin);
      in_parallel(found.size(), request_.search.threads, [&](size_t i, size_t thread) {
        found[i] = fitted(cells[begin + i].strategy, planners_[thread]);
      });
      for (size_t i = 0; i < found.size(); ++i) keep(cells[begin + i].strategy, found[i]);
    }
  }

  // Whether what was found is better than the candidate can become.
  [[nodiscard]] bool beats(const Candidate& candidate) const {
    return best_.has_value() && score(candidate) >= score(candidate_of(best_->plan));
  }
  std::optional<RunnablePlan> take() { return std::move(best_); }

 private:
  static Candidate candidate_of(const SimulatedStrategy& plan) {
    return {plan.strategy, plan.step_s(), plan.peak_bytes()};
  }
  [[nodiscard]] double score(const Candidate& candidate) const {
    return first_score(request_.search.objective, candidate.step_s, candidate.peak_bytes);
  }

  void keep(const Strategy& cell, Fitted& found) {
    for (const double share : found.shares) {
      const auto [known, is_new] = least_share_.try_emplace(kind_of(cell), share);
      if (!is_new) known->second = std::min(known->second, share);
    }
    if (!found.plan.has_value()) return;
    if (!best_.has_value() || is_better(request_.search.objective, candidate_of(found.plan->plan),
                                        candidate_of(best_->plan))) {
      best_ = std::move(found.plan);
    }
  }

  Fitted fitted(const Strategy& first, ScalePlanner& planner) const {
    SearchRequest cell = request_.search;
    cell.fixed = fixed_to_cell(cell.fixed, first);
    cell.keep = 1;
    cell.threads = 1;
    cell.budget = nullptr;  // a cell is little, and others are looked at beside it
    cell.pareto = false;
    Fitted result;
    const auto known = least_share_.find(kind_of(first));
    double share = known == least_share_.end() ? 1 / kMostModelled : known->second;
    std::optional<Strategy> strategy;
    for (int tries = 0; tries < kMostTries; ++tries) {
      cell.limit_bytes = static_cast<int64_t>(limit_ / share);
      const std::optional<Candidate> best = best_of(cell);
      if (!best || beats(*best) || (strategy && *strategy == best->strategy)) return result;
      strategy = best->strategy;
      EngineFile file =
          engine_file(request_.names, cell.workload, *strategy, request_.read, planner);
      if (file.lacks.empty()) {
        result.plan = {StrategySimulator(cell.workload).simulate(*strategy), std::move(file)};
        return result;
      }
      if (file.peak_bytes == 0) return result;  // refused, whatever its size
      const double found =
          static_cast<double>(file.peak_bytes) / static_cast<double>(best->peak_bytes);
      result.shares.push_back(found);
      // Less than what did not fit, in any case.
      share = std::max(found, limit_ / static_cast<double>(best->peak_bytes - 1));
    }
    return result;
  }

  static std::optional<Candidate> best_of(const SearchRequest& cell) {
    if (cell.limit_bytes <= 0) return std::nullopt;
    try {
      const SearchOutcome outcome = search_strategies(cell);
      if (outcome.best.empty()) return std::nullopt;
      return outcome.best.front();
    } catch (const ConfigError&) {
      return std::nullopt;  // run files can say nothing of the cell
    }
  }

  const RunnableRequest& request_;
  double limit_;
  std::vector<ScalePlanner> planners_;  // one per thread
  std::set<Cell> seen_;
  std::map<Kind, double> least_share_;
  std::optional<RunnablePlan> best_;
};

// The cells of all that run files can say.
std::vector<Candidate> sayable_cells(const RunnableRequest& request, int64_t cells,
                                     const OnProgress& progress) {
  SearchRequest wide = request.search;
  wide.fixed.sayable = true;
  wide.keep = cells;
  wide.pareto = false;
  wide.limit_bytes = static_cast<int64_t>(kMostModelled *
                                          static_cast<double>(usable_bytes(wide.workload.cluster)));
  try {
    return search_strategies(wide, progress).best;
  } catch (const ConfigError&) {
    return {};  // none of the splits
  }
}

}  // namespace

std::optional<RunnablePlan> best_runnable(const RunnableRequest& request,
                                          const std::vector<SimulatedStrategy>& plans,
                                          const OnProgress& progress) {
  CellSearch search(request);
  std::vector<Candidate> order;
  for (const SimulatedStrategy& plan : plans) {
    order.push_back({plan.strategy, plan.step_s(), plan.peak_bytes()});
  }
  search.look_at(order, progress);
  if (order.empty() || !search.beats(order.back())) {
    search.look_at(sayable_cells(request, kCells, progress), progress);
  }
  if (auto found = search.take()) return found;
  return smallest_runnable(request, progress);
}

std::optional<RunnablePlan> smallest_runnable(const RunnableRequest& request,
                                              const OnProgress& progress) {
  SearchRequest smallest = request.search;
  smallest.objective = Objective::kMemory;
  const RunnableRequest small{smallest, request.names, request.read, request.at};
  CellSearch search(small);
  search.look_at(sayable_cells(small, kSmallest, progress), progress);
  return search.take();
}

}  // namespace tessera
