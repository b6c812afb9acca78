#include "search/candidate.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace tessera {
namespace {

auto identity(const Strategy& s) {
  return std::tie(s.tp, s.pp, s.cp, s.dp, s.ep, s.expert_tp, s.micro_batch, s.schedule,
                  s.virtual_stages, s.recompute, s.recompute_layers, s.zero, s.shard,
                  s.release_after_forward, s.sequence_parallel, s.context, s.order, s.stage_layers,
                  s.stage_recompute);
}

bool is_tie_won(const Candidate& a, const Candidate& b) {
  return a.step_s == b.step_s && a.peak_bytes == b.peak_bytes &&
         comes_before(a.strategy, b.strategy);
}

}  // namespace

std::string_view name_of(Objective objective) {
  constexpr std::array<std::string_view, 3> kNames = {"time", "memory", "cost"};
  return kNames.at(static_cast<size_t>(objective));
}

double first_score(Objective objective, double step_s, int64_t peak_bytes) {
  return objective == Objective::kMemory ? static_cast<double>(peak_bytes) : step_s;
}

bool comes_before(const Strategy& a, const Strategy& b) { return identity(a) < identity(b); }

bool is_better(Objective objective, const Candidate& a, const Candidate& b) {
  if (objective == Objective::kMemory && a.peak_bytes != b.peak_bytes) {
    return a.peak_bytes < b.peak_bytes;
  }
  if (a.step_s != b.step_s) return a.step_s < b.step_s;
  if (a.peak_bytes != b.peak_bytes) return a.peak_bytes < b.peak_bytes;
  return identity(a.strategy) < identity(b.strategy);
}

void Front::add(const Candidate& candidate) {
  const auto dominates = [](const Candidate& a, const Candidate& b) {
    return a.step_s <= b.step_s && a.peak_bytes <= b.peak_bytes;
  };
  for (const Candidate& plan : plans_) {
    if (dominates(plan, candidate) && !is_tie_won(candidate, plan)) return;
  }
  std::erase_if(plans_, [&](const Candidate& plan) { return dominates(candidate, plan); });
  plans_.push_back(candidate);
}

bool Front::beats(double least_s, int64_t least_bytes) const {
  return std::any_of(plans_.begin(), plans_.end(), [&](const Candidate& plan) {
    return plan.step_s < least_s && plan.peak_bytes <= least_bytes;
  });
}

std::vector<Candidate> Front::sorted() const {
  std::vector<Candidate> plans = plans_;
  std::sort(plans.begin(), plans.end(), [](const Candidate& a, const Candidate& b) {
    return is_better(Objective::kTime, a, b);
  });
  return plans;
}

}  // namespace tessera
