#include "search/search_group.h"

#include <algorithm>
#include <utility>

#include "search/stage_choice.h"

namespace tessera {
namespace {

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
      s.stage_layers = schedule.stage_layers;
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
    const bool keeps_all = variants.none && try_plan(s);
    bool keeps_most = keeps_all;
    if (variants.selective) {
      s.recompute = Recompute::kSelective;
      keeps_most = try_plan(s) || keeps_all;
    }
    s.recompute = Recompute::kFull;
    const bool wants_least = request_.objective == Objective::kMemory || request_.pareto;
    if (keeps_most && !wants_least) {
      reject(Rejected::kRecompute, (variants.full ? 1 : 0) + variants.parts());
      return keeps_all;
    }
    // More layers computed again take more time and less memory: the fewest that fit are best.
    if (!(variants.full ? try_plan(s) : fits(s))) {  // all of them
      reject(Rejected::kPeak, variants.parts());
      return keeps_all;
    }
    if (!variants.some) return keeps_all;
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
    if (variants.none) try_plan(s);
    s.recompute = Recompute::kSelective;
    if (variants.selective) try_plan(s);
    s.recompute = Recompute::kFull;
    for (int64_t k = 1; k <= variants.recompute_layers; ++k) {
      const bool all = k == variants.recompute_layers;
      s.recompute_layers = all ? -1 : k;
      if (all ? variants.full : variants.some) try_plan(s);
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
    } else if (!variants.some) {
      reject(Rejected::kNotAllowed, 1);
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
    if (!is_allowed(request_.fixed, request_.workload, chosen)) {
      reject(Rejected::kNotAllowed, 1);
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

}  // namespace

GroupOutcome search_group(const SearchRequest& request, CostModel& model, int64_t limit,
                          const Known& known, const Strategy& group) {
  return GroupPricing(request, model, limit, known).price(group);
}

}  // namespace tessera
