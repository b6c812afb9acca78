#include "search/runnable.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "search/in_parallel.h"

namespace tessera {
namespace {

constexpr size_t kRound = 16;           // of cells that are looked at together
constexpr int kMostTries = 4;           // of one cell, each with less memory than the one before
constexpr int64_t kCells = 256;         // of a search of its own
constexpr int64_t kSmallest = 16;       // of a search for the smallest plans
constexpr double kMostModelled = 1.25;  // times the memory, by the cost model, that may still fit

// One cell: what the work depends on, with the schedule.
FixedAxes cell_of(const FixedAxes& fixed, const Strategy& s) {
  FixedAxes cell = fixed;
  cell.tp = s.tp;
  cell.pp = s.pp;
  cell.dp = s.dp;
  cell.cp = s.cp;
  cell.ep = s.ep;
  cell.micro_batch = s.micro_batch;
  cell.sayable = true;
  if (s.pp > 1) {
    cell.schedules = {s.schedule};
    cell.virtual_stages = s.virtual_stages;
  }
  return cell;
}

// Looks at cells one after the other, each until its Programs fit or nothing of it can.
class CellSearch {
 public:
  explicit CellSearch(const RunnableRequest& request)
      : request_(request),
        limit_(usable_bytes(request.search.workload.cluster)),
        planners_(static_cast<size_t>(request.search.threads)) {}

  // `order`: fastest first, or smallest.
  std::optional<RunnablePlan> run(const std::vector<Strategy>& order,
                                  const std::vector<double>& scores, const OnProgress& progress) {
    const size_t most = std::min(order.size(), static_cast<size_t>(request_.most_cells));
    for (size_t begin = 0; begin < most; begin += kRound) {
      if (best_.has_value() && scores[begin] >= score_of(best_->plan)) break;
      if (progress && !progress(request_.at)) break;
      const size_t end = std::min(begin + kRound, most);
      std::vector<std::optional<RunnablePlan>> found(end - begin);
      in_parallel(found.size(), request_.search.threads,
                  [&](size_t i, size_t t) { found[i] = fitted(order[begin + i], planners_[t]); });
      for (std::optional<RunnablePlan>& one : found) keep(std::move(one));
    }
    return std::move(best_);
  }

 private:
  [[nodiscard]] double score_of(const SimulatedStrategy& plan) const {
    return first_score(request_.search.objective, plan.step_s(), plan.peak_bytes());
  }

  void keep(std::optional<RunnablePlan> found) {
    if (!found.has_value()) return;
    const auto candidate = [](const SimulatedStrategy& plan) {
      return Candidate{plan.strategy, plan.step_s(), plan.peak_bytes()};
    };
    if (!best_.has_value() ||
        is_better(request_.search.objective, candidate(found->plan), candidate(best_->plan))) {
      best_ = std::move(found);
    }
  }

  std::optional<RunnablePlan> fitted(Strategy strategy, ScalePlanner& planner) const {
    SearchRequest cell = request_.search;
    cell.fixed = cell_of(request_.search.fixed, strategy);
    cell.keep = 1;
    cell.threads = 1;
    cell.pareto = false;
    CostModel model(cell.workload);
    for (int tries = 0; tries < kMostTries; ++tries) {
      EngineFile file =
          engine_file(request_.names, cell.workload, strategy, request_.read, planner);
      if (file.lacks.empty()) {
        return RunnablePlan{StrategySimulator(cell.workload).simulate(strategy), std::move(file)};
      }
      if (file.peak_bytes == 0 && tries > 0) return std::nullopt;  // refused, not too large
      const int64_t modelled = model.peak_bytes(strategy);
      // What cannot be said at all may have a neighbour in its cell that can.
      cell.limit_bytes =
          file.peak_bytes == 0
              ? static_cast<int64_t>(kMostModelled * static_cast<double>(limit_))
              : std::min(modelled - 1, static_cast<int64_t>(static_cast<double>(limit_) *
                                                            static_cast<double>(modelled) /
                                                            static_cast<double>(file.peak_bytes)));
      std::optional<Strategy> other = best_of(cell);
      if (!other.has_value() || *other == strategy) return std::nullopt;
      strategy = *std::move(other);
    }
    return std::nullopt;
  }

  static std::optional<Strategy> best_of(const SearchRequest& cell) {
    if (cell.limit_bytes <= 0) return std::nullopt;
    try {
      const SearchOutcome outcome = search_strategies(cell);
      if (outcome.best.empty()) return std::nullopt;
      return outcome.best.front().strategy;
    } catch (const ConfigError&) {
      return std::nullopt;  // nothing of the cell can be said
    }
  }

  const RunnableRequest& request_;
  int64_t limit_;
  std::vector<ScalePlanner> planners_;  // one per thread
  std::optional<RunnablePlan> best_;
};

std::optional<RunnablePlan> search_cells(const RunnableRequest& request, int64_t cells,
                                         const OnProgress& progress) {
  SearchRequest wide = request.search;
  wide.fixed.sayable = true;
  wide.keep = cells;
  wide.pareto = false;
  wide.limit_bytes = static_cast<int64_t>(kMostModelled *
                                          static_cast<double>(usable_bytes(wide.workload.cluster)));
  std::vector<Strategy> order;
  std::vector<double> scores;
  try {
    for (const Candidate& candidate : search_strategies(wide, progress).best) {
      order.push_back(candidate.strategy);
      scores.push_back(first_score(wide.objective, candidate.step_s, candidate.peak_bytes));
    }
  } catch (const ConfigError&) {
    return std::nullopt;  // run files can say none of the splits
  }
  return CellSearch(request).run(order, scores, progress);
}

}  // namespace

std::optional<RunnablePlan> best_runnable(const RunnableRequest& request,
                                          const std::vector<SimulatedStrategy>& plans,
                                          const OnProgress& progress) {
  std::vector<Strategy> order;
  std::vector<double> scores;
  for (const SimulatedStrategy& plan : plans) {
    order.push_back(plan.strategy);
    scores.push_back(first_score(request.search.objective, plan.step_s(), plan.peak_bytes()));
  }
  return CellSearch(request).run(order, scores, progress);
}

std::optional<RunnablePlan> search_runnable(const RunnableRequest& request,
                                            const OnProgress& progress) {
  if (auto found = search_cells(request, kCells, progress)) return found;
  return smallest_runnable(request, progress);
}

std::optional<RunnablePlan> smallest_runnable(const RunnableRequest& request,
                                              const OnProgress& progress) {
  SearchRequest smallest = request.search;
  smallest.objective = Objective::kMemory;
  const RunnableRequest small{smallest, request.names, request.read, request.at,
                              request.most_cells};
  return search_cells(small, kSmallest, progress);
}

}  // namespace tessera
