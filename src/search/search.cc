#include "search/search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "search/in_parallel.h"
#include "search/stage_choice.h"

namespace tessera {
namespace {

// Groups that are worked on with the same threshold: more would see the best plans later, fewer
// would leave threads waiting.
constexpr size_t kRound = 256;

// What tells strategies apart, in an order that has no meaning but is total.
auto identity(const Strategy& s) {
  return std::tie(s.tp, s.pp, s.cp, s.dp, s.ep, s.expert_tp, s.micro_batch, s.schedule,
                  s.virtual_stages, s.recompute, s.recompute_layers, s.zero, s.shard,
                  s.release_after_forward, s.sequence_parallel, s.context, s.order, s.stage_layers,
                  s.stage_recompute);
}

using Cell = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, PipelineKind,
                        int64_t>;
Cell cell_of(const Strategy& s) {
  return {s.tp, s.pp, s.cp, s.dp, s.ep, s.expert_tp, s.micro_batch, s.schedule, s.virtual_stages};
}

double first_score(Objective objective, double step_s, int64_t peak_bytes) {
  return objective == Objective::kMemory ? static_cast<double>(peak_bytes) : step_s;
}

struct Group {
  Strategy strategy;
  double least_s = 0;
  int64_t least_bytes = 0;
  int64_t variants = 0;
};

// Plans of which none is both slower and larger than another, fastest first.
class Front {
 public:
  void add(const Candidate& candidate) {
    const auto dominates = [](const Candidate& a, const Candidate& b) {
      return a.step_s <= b.step_s && a.peak_bytes <= b.peak_bytes;
    };
    for (const Candidate& plan : plans_) {
      if (dominates(plan, candidate) && !is_tie_won(candidate, plan)) return;
    }
    std::erase_if(plans_, [&](const Candidate& plan) { return dominates(candidate, plan); });
    plans_.push_back(candidate);
  }
  [[nodiscard]] bool beats(double least_s, int64_t least_bytes) const {
    return std::any_of(plans_.begin(), plans_.end(), [&](const Candidate& plan) {
      return plan.step_s < least_s && plan.peak_bytes <= least_bytes;
    });
  }
  [[nodiscard]] const std::vector<Candidate>& plans() const { return plans_; }
  std::vector<Candidate> sorted() {
    std::sort(plans_.begin(), plans_.end(), [](const Candidate& a, const Candidate& b) {
      return is_better(Objective::kTime, a, b);
    });
    return plans_;
  }

 private:
  static bool is_tie_won(const Candidate& a, const Candidate& b) {
    return a.step_s == b.step_s && a.peak_bytes == b.peak_bytes &&
           identity(a.strategy) < identity(b.strategy);
  }
  std::vector<Candidate> plans_;
};

// What came of one group.
struct GroupOutcome {
  std::vector<Candidate> best;  // of each schedule that fits
  Front front;
  std::optional<Candidate> smallest;  // where it does not fit: step_s is 0
  std::array<int64_t, kNumRejected> rejected = {};
  int64_t priced = 0;
};

// What the rounds before have found.
struct Known {
  std::optional<double> threshold;  // score of the last plan that is kept so far
  const Front& front;
  bool nothing_fits = false;  // the plan that comes nearest is asked for

  // Whether no plan that takes at least this can be kept.
  [[nodiscard]] bool beats(const SearchRequest& request, double least_s,
                           int64_t least_bytes) const {
    if (request.exhaustive || !threshold.has_value()) return false;
    if (first_score(request.objective, least_s, least_bytes) <= *threshold) return false;
    return !request.pareto || front.beats(least_s, least_bytes);
  }
};

// Prices the variants of one group.
class GroupPricing {
 public:
  GroupPricing(const SearchRequest& request, CostModel& model, int64_t limit, const Known& known)
      : request_(request), model_(model), limit_(limit), known_(known) {}

  GroupOutcome price(const Strategy& group) {
    outcome_ = {};
    const Variants variants = variants_of(request_.workload, group, request_.fixed);
    std::vector<ShardingChoice> possible;
    for (const ShardingChoice& sharding : variants.shardings) {
      Strategy s = group;
      set(s, sharding);
      ++outcome_.priced;
      const int64_t states = model_.states_bound_bytes(s);
      if (states <= limit_ || request_.exhaustive) {
        possible.push_back(sharding);
        continue;
      }
      reject(Rejected::kStates, (variants.recomputations() + variants.stage_choices) *
                                    static_cast<int64_t>(variants.schedules.size()));
      if (!known_.nothing_fits) continue;
      s.recompute = Recompute::kFull;
      miss(s, model_.peak_bytes(s));
    }
    for (const ScheduleChoice& schedule : variants.schedules) {
      Strategy s = group;
      s.schedule = schedule.kind;
      s.virtual_stages = schedule.virtual_stages;
      best_.reset();
      price_schedule(s, possible, variants);
      if (best_.has_value()) {
        outcome_.best.push_back(*best_);
        --outcome_.rejected[static_cast<size_t>(Rejected::kSlower)];
      }
    }
    return std::move(outcome_);
  }

 private:
  static void set(Strategy& s, const ShardingChoice& choice) {
    s.zero = choice.zero;
    s.shard = choice.shard;
    s.release_after_forward = choice.release_after_forward;
  }

  void price_schedule(Strategy s, const std::vector<ShardingChoice>& shardings,
                      const Variants& variants) {
    std::vector<ShardingChoice> hopeful;
    std::vector<bool> keeps_all;
    for (const ShardingChoice& sharding : shardings) {
      set(s, sharding);
      if (known_.beats(request_, model_.stages_bound_s(s), model_.stages_bound_bytes(s))) {
        reject(Rejected::kBound, variants.recomputations() + variants.stage_choices);
        continue;
      }
      hopeful.push_back(sharding);
      keeps_all.push_back(price_recomputations(s, variants));
    }
    // After all equal stages, so that their best plan bounds the others.
    for (size_t i = 0; i < hopeful.size(); ++i) {
      set(s, hopeful[i]);
      price_stages(s, variants, keeps_all[i]);
    }
  }

  // Equal stages; whether they fit with nothing computed again.
  bool price_recomputations(Strategy s, const Variants& variants) {
    if (request_.exhaustive) {
      price_all(s, variants);
      return false;
    }
    const int64_t layers = variants.recompute_layers;
    s.recompute = Recompute::kNone;
    s.recompute_layers = -1;
    const bool keeps_all = try_plan(s);
    bool keeps_most = keeps_all;
    if (variants.selective) {
      s.recompute = Recompute::kSelective;
      keeps_most = try_plan(s) || keeps_all;
    }
    s.recompute = Recompute::kFull;
    const bool wants_least = request_.objective == Objective::kMemory || request_.pareto;
    if (keeps_most && !wants_least) {
      reject(Rejected::kRecompute, layers);
      return keeps_all;
    }
    // More layers computed again take more time and less memory: the fewest that fit are best.
    if (!try_plan(s)) {  // all of them
      reject(Rejected::kPeak, layers - 1);
      return keeps_all;
    }
    int64_t few = 0, enough = layers;  // `few` do not fit
    while (enough - few > 1) {
      const int64_t middle = (few + enough) / 2;
      s.recompute_layers = middle;
      (fits(s) ? enough : few) = middle;
    }
    reject(Rejected::kPeak, few);
    reject(Rejected::kRecompute, std::max<int64_t>(0, layers - enough - 1));
    if (enough == layers) return keeps_all;
    s.recompute_layers = enough;
    try_plan(s);
    return keeps_all;
  }

  void price_all(Strategy s, const Variants& variants) {
    s.recompute = Recompute::kNone;
    try_plan(s);
    s.recompute = Recompute::kSelective;
    if (variants.selective) try_plan(s);
    s.recompute = Recompute::kFull;
    for (int64_t k = 1; k <= variants.recompute_layers; ++k) {
      s.recompute_layers = k == variants.recompute_layers ? -1 : k;
      try_plan(s);
    }
  }

  // Stages one by one: with equal layers, each computing again what it must; and with the layers
  // that the objective likes best.
  // `keeps_all`: equal ones fit without computing anything again.
  void price_stages(Strategy s, const Variants& variants, bool keeps_all) {
    if (variants.stage_choices == 0) return;
    s.recompute = Recompute::kNone;
    if (!can_choose_stages(request_.workload, s)) {
      reject(Rejected::kAlike, variants.stage_choices);
      return;
    }
    if (is_bounded(s)) {
      reject(Rejected::kBound, variants.stage_choices);
      return;
    }
    const bool by_memory = request_.objective == Objective::kMemory;
    if (keeps_all && !request_.exhaustive) {
      reject(Rejected::kAlike, 1);
    } else {
      try_choice(s, fewest_again(model_, s, limit_));
    }
    try_choice(s, by_memory ? smallest_stages(model_, s) : shortest_stages(model_, s, limit_));
  }

  // Whether no choice of stages can be kept, nor be better than what this schedule has.
  bool is_bounded(const Strategy& s) {
    if (request_.exhaustive) return false;
    const double least_s = model_.stages_bound_s(s, least_busiest_s(model_, s));
    const int64_t least_bytes = model_.stages_bound_bytes(s);
    if (known_.beats(request_, least_s, least_bytes)) return true;
    if (!best_.has_value() ||
        first_score(request_.objective, least_s, least_bytes) <=
            first_score(request_.objective, best_->step_s, best_->peak_bytes)) {
      return false;
    }
    return !request_.pareto || outcome_.front.beats(least_s, least_bytes);
  }

  void try_choice(const Strategy& s, const std::optional<StageChoice>& choice) {
    if (!choice.has_value()) {
      reject(Rejected::kPeak, 1);
      return;
    }
    const Strategy chosen = with_stages(request_.workload, s, *choice);
    if (chosen.stage_layers.empty() && chosen.stage_recompute.empty()) {
      reject(Rejected::kAlike, 1);
      return;
    }
    try_plan(chosen);
  }

  bool fits(const Strategy& s) {
    ++outcome_.priced;
    return model_.peak_bytes(s) <= limit_;
  }

  // Prices and counts one configuration; whether it fits.
  bool try_plan(const Strategy& s) {
    ++outcome_.priced;
    const int64_t peak = model_.peak_bytes(s);
    if (peak > limit_) {
      reject(Rejected::kPeak, 1);
      miss(s, peak);
      return false;
    }
    reject(Rejected::kSlower, 1);
    const Candidate candidate{s, model_.step_s(s), peak};
    if (!best_.has_value() || is_better(request_.objective, candidate, *best_)) best_ = candidate;
    if (request_.pareto) outcome_.front.add(candidate);
    return true;
  }

  void miss(const Strategy& s, int64_t bytes) {
    if (!outcome_.smallest.has_value() || bytes < outcome_.smallest->peak_bytes) {
      outcome_.smallest = Candidate{s, 0, bytes};
    }
  }

  void reject(Rejected why, int64_t count) { outcome_.rejected[static_cast<size_t>(why)] += count; }

  const SearchRequest& request_;
  CostModel& model_;
  int64_t limit_;
  const Known& known_;
  GroupOutcome outcome_;
  std::optional<Candidate> best_;  // of the schedule in work
};

class Search {
 public:
  Search(const SearchRequest& request, const OnProgress& progress)
      : request_(request), progress_(progress), limit_(usable_bytes(request.workload.cluster)) {
    const CostModel model(request.workload);
    models_.reserve(static_cast<size_t>(request.threads));
    for (int t = 0; t < request.threads; ++t) models_.push_back(model);
  }

  SearchOutcome run() {
    list_groups();
    for (size_t begin = 0; begin < groups_.size() && !outcome_.stopped; begin += kRound) {
      run_round(begin, std::min(begin + kRound, groups_.size()));
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
                   "none of {} splits of {} devices is possible: {}; choose another number of "
                   "devices, global batch or sequence length",
                   outcome_.splits, request_.workload.cluster.devices, most_frequent_reason());
    groups_.resize(space.groups.size());
    in_parallel(groups_.size(), request_.threads, [&](size_t i, size_t thread) {
      groups_[i] = bounded(space.groups[i], models_[thread]);
    });
    const bool by_memory = request_.objective == Objective::kMemory;
    std::sort(groups_.begin(), groups_.end(), [&](const Group& a, const Group& b) {
      const double bound_a = by_memory ? static_cast<double>(a.least_bytes) : a.least_s;
      const double bound_b = by_memory ? static_cast<double>(b.least_bytes) : b.least_s;
      if (bound_a != bound_b) return bound_a < bound_b;
      return identity(a.strategy) < identity(b.strategy);
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
      GroupPricing pricing(request_, models_[thread], limit_, known);
      results[i] = pricing.price(groups_[work[i]].strategy);
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
    const auto last = scores.begin() + (request_.keep - 1);
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

std::string_view name_of(Objective objective) {
  constexpr std::array<std::string_view, 3> kNames = {"time", "memory", "cost"};
  return kNames.at(static_cast<size_t>(objective));
}

std::string_view reason_of(Rejected rejected) {
  constexpr std::array<std::string_view, kNumRejected> kReasons = {
      "parameters, gradients and optimizer states alone do not fit",
      "activations and working memory do not fit beside them",
      "computes more layers again than memory asks for",
      "choosing stages one by one comes out as equal ones",
      "its work alone takes longer than the kept plans",
      "priced, and others are better"};
  return kReasons.at(static_cast<size_t>(rejected));
}

bool is_better(Objective objective, const Candidate& a, const Candidate& b) {
  if (objective == Objective::kMemory && a.peak_bytes != b.peak_bytes) {
    return a.peak_bytes < b.peak_bytes;
  }
  if (a.step_s != b.step_s) return a.step_s < b.step_s;
  if (a.peak_bytes != b.peak_bytes) return a.peak_bytes < b.peak_bytes;
  return identity(a.strategy) < identity(b.strategy);
}

int64_t usable_bytes(const Cluster& cluster) {
  return static_cast<int64_t>(cluster.device.memory_bytes.value -
                              cluster.device.reserved_bytes.value);
}

SearchOutcome search_strategies(const SearchRequest& request, const OnProgress& progress) {
  require_config(request.keep >= 1, "a search keeps at least 1 plan, got {}", request.keep);
  require_config(request.threads >= 1 && request.threads <= 256,
                 "a search has from 1 to 256 threads, got {}", request.threads);
  return Search(request, progress).run();
}

}  // namespace tessera
