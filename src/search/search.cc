#include "search/search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "search/in_parallel.h"
#include "search/search_group.h"

namespace tessera {
namespace {

// Groups that are worked on with the same threshold: more would see the best plans later, fewer
// would leave threads waiting.
constexpr size_t kRound = 256;

using Cell = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, PipelineKind,
                        int64_t>;
Cell cell_of(const Strategy& s) {
  return {s.tp, s.pp, s.cp, s.dp, s.ep, s.expert_tp, s.micro_batch, s.schedule, s.virtual_stages};
}

struct Group {
  Strategy strategy;
  double least_s = 0;
  int64_t least_bytes = 0;
  int64_t variants = 0;
};

class Search {
 public:
  Search(const SearchRequest& request, const OnProgress& progress)
      : request_(request),
        progress_(progress),
        limit_(request.limit_bytes > 0 ? request.limit_bytes
                                       : usable_bytes(request.workload.cluster)) {
    const CostModel model(request.workload);
    models_.reserve(static_cast<size_t>(request.threads));
    for (int t = 0; t < request.threads; ++t) models_.push_back(model);
  }

  SearchOutcome run() {
    list_groups();
    for (size_t begin = 0; begin < groups_.size() && !outcome_.stopped; begin += kRound) {
      if (request_.budget != nullptr && request_.budget->prices_left <= 0) {
        outcome_.stopped = outcome_.out_of_budget = true;
        break;
      }
      const int64_t before = outcome_.priced;
      run_round(begin, std::min(begin + kRound, groups_.size()));
      if (request_.budget != nullptr) request_.budget->prices_left -= outcome_.priced - before;
      report();
    }
    finish();
    return std::move(outcome_);
  }

 private:
  void list_groups() {
    SearchSpace space = search_space(request_.workload, request_.fixed);
    outcome_.splits = space.splits;
    outcome_.splits_rejected = std::move(space.rejected);
    require_config(!space.groups.empty(),
                   "none of {} splits of {} devices is possible, most often because: {}; choose "
                   "another number "
                   "of devices, global batch or sequence length, or other values of --tp, --pp, "
                   "--cp, --dp and --ep{}",
                   outcome_.splits, request_.workload.cluster.devices, most_frequent_reason(),
                   request_.fixed.system == nullptr
                       ? ""
                       : fmt::format(", or leave out --for {}", request_.fixed.system->name));
    groups_.resize(space.groups.size());
    in_parallel(groups_.size(), request_.threads, [&](size_t i, size_t thread) {
      groups_[i] = bounded(space.groups[i], models_[thread]);
    });
    const bool by_memory = request_.objective == Objective::kMemory;
    std::sort(groups_.begin(), groups_.end(), [&](const Group& a, const Group& b) {
      const double bound_a = by_memory ? static_cast<double>(a.least_bytes) : a.least_s;
      const double bound_b = by_memory ? static_cast<double>(b.least_bytes) : b.least_s;
      if (bound_a != bound_b) return bound_a < bound_b;
      return comes_before(a.strategy, b.strategy);
    });
    outcome_.groups = static_cast<int64_t>(groups_.size());
  }

  [[nodiscard]] std::string most_frequent_reason() const {
    SplitRejection most;
    for (const SplitRejection& rejection : outcome_.splits_rejected) {
      if (rejection.splits > most.splits) most = rejection;
    }
    return most.reason;
  }

  Group bounded(const Strategy& strategy, CostModel& model) const {
    Group group;
    group.strategy = strategy;
    group.least_s = model.work_bound_s(strategy);
    const Variants variants = variants_of(request_.workload, strategy, request_.fixed);
    group.variants = variants.count();
    group.least_bytes = INT64_MAX;
    Strategy s = strategy;
    for (const ShardingChoice& sharding : variants.shardings) {
      s.zero = sharding.zero;
      s.shard = sharding.shard;
      group.least_bytes = std::min(group.least_bytes, model.states_bound_bytes(s));
    }
    return group;
  }

  void run_round(size_t begin, size_t end) {
    const Known known{threshold_, front_, cells_.empty()};
    std::vector<size_t> work;
    for (size_t i = begin; i < end; ++i) {
      ++outcome_.groups_done;
      outcome_.configurations += groups_[i].variants;
      if (known.beats(request_, groups_[i].least_s, groups_[i].least_bytes)) {
        outcome_.rejected[static_cast<size_t>(Rejected::kBound)] += groups_[i].variants;
      } else {
        work.push_back(i);
      }
    }
    std::vector<GroupOutcome> results(work.size());
    in_parallel(work.size(), request_.threads, [&](size_t i, size_t thread) {
      results[i] =
          search_group(request_, models_[thread], limit_, known, groups_[work[i]].strategy);
    });
    for (GroupOutcome& result : results) merge(result);
    lower_threshold();
  }

  void merge(const GroupOutcome& result) {
    outcome_.priced += result.priced;
    for (size_t i = 0; i < kNumRejected; ++i) outcome_.rejected[i] += result.rejected[i];
    for (const Candidate& candidate : result.best) {
      const auto [cell, is_new] = cells_.try_emplace(cell_of(candidate.strategy), candidate);
      if (is_new) continue;
      if (is_better(request_.objective, candidate, cell->second)) cell->second = candidate;
      ++outcome_.rejected[static_cast<size_t>(Rejected::kSlower)];
    }
    for (const Candidate& candidate : result.front.plans()) front_.add(candidate);
    if (result.smallest.has_value() &&
        (!smallest_.has_value() || result.smallest->peak_bytes < smallest_->peak_bytes)) {
      smallest_ = result.smallest;
    }
  }

  // The score of the last plan that would be kept now.
  void lower_threshold() {
    if (cells_.size() < static_cast<size_t>(request_.keep)) return;
    std::vector<double> scores;
    for (const auto& [cell, plan] : cells_) {
      scores.push_back(first_score(request_.objective, plan.step_s, plan.peak_bytes));
    }
    const auto last = scores.begin() + static_cast<std::ptrdiff_t>(request_.keep - 1);
    std::nth_element(scores.begin(), last, scores.end());
    threshold_ = *last;
  }

  void report() {
    if (!progress_) return;
    SearchProgress progress{outcome_.groups, outcome_.groups_done, outcome_.configurations, 0};
    for (const auto& [cell, plan] : cells_) {
      if (progress.best_step_s == 0 || plan.step_s < progress.best_step_s) {
        progress.best_step_s = plan.step_s;
      }
    }
    outcome_.stopped = !progress_(progress);
  }

  void finish() {
    for (auto& [cell, plan] : cells_) outcome_.best.push_back(std::move(plan));
    std::sort(outcome_.best.begin(), outcome_.best.end(),
              [&](const Candidate& a, const Candidate& b) {
                return is_better(request_.objective, a, b);
              });
    const auto kept = std::min(outcome_.best.size(), static_cast<size_t>(request_.keep));
    outcome_.rejected[static_cast<size_t>(Rejected::kSlower)] +=
        static_cast<int64_t>(outcome_.best.size() - kept);
    outcome_.best.resize(kept);
    outcome_.front = front_.sorted();
    if (outcome_.best.empty()) outcome_.nearest = smallest_;
  }

  const SearchRequest& request_;
  const OnProgress& progress_;
  int64_t limit_;
  std::vector<CostModel> models_;  // one per thread
  std::vector<Group> groups_;
  std::map<Cell, Candidate> cells_;
  std::optional<double> threshold_;
  Front front_;
  std::optional<Candidate> smallest_;
  SearchOutcome outcome_;
};

}  // namespace

std::string_view reason_of(Rejected rejected) {
  constexpr std::array<std::string_view, kNumRejected> kReasons = {
      "parameters, gradients and optimizer states alone do not fit",
      "activations and working memory do not fit beside them",
      "computes more layers again than memory asks for",
      "choosing stages one by one comes out as equal ones",
      "its work alone takes longer than the kept plans",
      "priced, and others are better",
      "stages chosen one by one are not what --recompute or --for allow"};
  return kReasons.at(static_cast<size_t>(rejected));
}

SearchOutcome search_strategies(const SearchRequest& request, const OnProgress& progress) {
  require_config(request.keep >= 1, "a search keeps at least 1 plan, got {}", request.keep);
  require_config(request.threads >= 1 && request.threads <= 256,
                 "a search has from 1 to 256 threads, got {}", request.threads);
  return Search(request, progress).run();
}

}  // namespace tessera
