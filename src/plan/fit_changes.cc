#include "plan/fit_changes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "cost/hardware/catalogue.h"
#include "plan/estimate_run.h"
#include "plan/fit_space.h"
#include "plan/memory_limit.h"
#include "plan/plan.h"
#include "sim/schedule/schedule_tapes.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

constexpr size_t kMostTogether = 3;
// Exact plans cost milliseconds each; closed forms microseconds.
constexpr int kMostPlans = 16;
constexpr int kMostUnlikelyPlans = 6;
constexpr size_t kMostPriced = 4000;
// Closed forms of memory are within this of exact plans, once both are compared for the run itself.
constexpr double kTrust = 1.10;

// Changes by their numbers in the space, applied together.
struct Combination {
  std::array<int, kMostTogether> changes = {-1, -1, -1};
  size_t count = 0;
  uint32_t subjects = 0;  // a bit for each
  double step_s = 0;
  double bytes = 0;  // by closed forms, of the fullest rank

  [[nodiscard]] bool has(int change) const {
    return std::find(changes.begin(), changes.end(), change) != changes.end();
  }
  // All of `other`, and more.
  [[nodiscard]] bool extends(const Combination& other) const {
    return other.count < count &&
           std::all_of(other.changes.begin(),
                       other.changes.begin() + static_cast<std::ptrdiff_t>(other.count),
                       [&](int change) { return has(change); });
  }
};

bool is_cheaper(const Combination& a, const Combination& b) {
  return std::tie(a.step_s, a.count, a.changes) < std::tie(b.step_s, b.count, b.changes);
}

bool is_smaller(const Combination& a, const Combination& b) {
  return std::tie(a.bytes, a.step_s, a.changes) < std::tie(b.bytes, b.step_s, b.changes);
}

// The share that `recompute` leaves of what a block keeps for its backward, where the cost model
// takes it for "none" or attention alone: docs/recomputation.md has the elements per token.
double kept_share(const RunSpec& spec) {
  if (!untrainable_choice(spec.model).empty()) return 1;  // plans are the cost model's
  const ModelSpec& m = spec.model;
  const ParallelSpec& p = spec.parallel;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double tp = number(p.tp);
  const double h = number(m.hidden) / (p.sequence_parallel ? tp : 1.0);
  const double q = number(m.heads * m.head_dim) / tp;
  const double e = number(m.kv_heads * m.head_dim) / tp;
  const double f = number(m.experts > 0 ? m.moe_ffn * m.experts_per_token : m.ffn) / tp;
  const double all = 4 * h + 2 * q + 2 * e + 3 * f;
  const std::optional<Recompute> kind = choice_named<Recompute>(p.recompute);
  if (kind == Recompute::kNorms) return (all - 2 * h) / all;
  if (kind == Recompute::kLight) return (all - 2 * h - f) / all;
  if (kind == Recompute::kSelective) return (all - 2 * h - q - f) / all;
  return 1;
}

double closed_form_bytes(const RunSpec& spec, const Estimate& estimate) {
  const double kept = kept_share(spec);
  double most = 0;
  for (const StageMemory& stage : estimate.stages) {
    const auto activations =
        static_cast<double>(stage.bytes[static_cast<size_t>(MemoryPart::kActivations)]);
    most = std::max(most, static_cast<double>(stage.total()) - activations * (1 - kept));
  }
  return most;
}

// A batch that nobody said is filled in from the split and the micro-batch.
std::vector<std::string> settings_of_change(const RunSpec& before, const RunSpec& after,
                                            const OpenSettings& open) {
  std::vector<std::string> settings = settings_between(before, after);
  const bool other_batch = after.train.micro_batch != before.train.micro_batch ||
                           after.parallel.pp != before.parallel.pp ||
                           after.parallel.replicas() != before.parallel.replicas();
  if (open.global_batch && other_batch) {
    settings.push_back(fmt::format("train.global_batch={}", after.train.global_batch));
  }
  return settings;
}

// Whether one of `keys` differs. dp is what the other axes leave.
bool touches(const RunSpec& before, const RunSpec& after, const std::set<std::string>& keys) {
  if (keys.empty()) return false;
  const std::vector<std::string> settings = settings_between(before, after);
  return std::any_of(settings.begin(), settings.end(), [&](const std::string& setting) {
    const std::string key = setting.substr(0, setting.find('='));
    if (key == "parallel.zero" && before.parallel.zero == after.parallel.zero) return false;
    return key != "parallel.dp" && keys.contains(key);
  });
}

class Advisor {
 public:
  Advisor(const RunSpec& spec, const OpenSettings& open, const Cluster& cluster,
          const Engine& engine, ScalePlanner& planner, size_t most, BlockProducts products)
      : before_(spec),
        base_(spec),
        open_(open),
        cluster_(cluster),
        engine_(engine),
        planner_(planner),
        products_(products),
        most_(most),
        limit_(memory_limit(spec, cluster)),
        space_(fit_space(spec, cluster)) {
    if (open.grad_reduce) base_.parallel.grad_reduce = GradReduce::kAuto;
  }

  FitAdvice run();
  // The smallest, or the one after it.
  std::optional<FitChange> smallest_that_fits(double exact_share);
  [[nodiscard]] double exact_share() const { return exact_share_; }
  // Keys that no change may touch.
  void keep(std::set<std::string> said) { said_ = std::move(said); }

 private:
  using Combinations = std::vector<Combination>;

  [[nodiscard]] std::optional<RunSpec> changed(const Combination& combination) const;
  [[nodiscard]] std::optional<FitChange> planned(const Combination& combination);
  void compare_with_exact();
  void price(Combination combination, Combinations& into);
  void price_singles();
  void price_more(size_t count);
  [[nodiscard]] Combinations likely() const;
  [[nodiscard]] Combinations smallest() const;
  [[nodiscard]] bool is_hopeless(const Combination& combination) const;
  [[nodiscard]] bool is_too_much(const Combination& combination) const;
  [[nodiscard]] bool is_known_idea(const Combination& combination) const;
  [[nodiscard]] bool is_done(const Combination& combination) const;
  bool try_out(const Combination& combination);
  enum class Ideas : uint8_t { kNew, kAny };
  void accept(const Combinations& order, Ideas ideas, int most_plans);
  void accept_cheapest_single();

  struct Accepted {
    Combination combination;
    FitChange change;
  };

  RunSpec before_, base_;
  OpenSettings open_;
  const Cluster& cluster_;
  const Engine& engine_;
  ScalePlanner& planner_;
  BlockProducts products_;
  ScheduleTapes tapes_;  // most changes keep the shape of the pipeline
  size_t most_;
  int64_t limit_;
  std::vector<SpaceChange> space_;
  std::set<std::string> said_;
  double exact_share_ = 1;            // exact bytes of the run itself, of its closed form's
  std::vector<Combinations> priced_;  // by how many changes, less one
  std::vector<Combination> failed_;   // were planned, and do not fit
  std::vector<Combination> refused_;  // have no plan
  std::vector<Accepted> accepted_;
  std::optional<FitChange> nearest_;
  double step_s_ = 0;  // of the run itself
  int plans_ = 0;
};

std::optional<RunSpec> Advisor::changed(const Combination& combination) const {
  RunSpec spec = base_;
  for (size_t i = 0; i < combination.count; ++i) {
    if (!space_[static_cast<size_t>(combination.changes[i])].apply(spec)) return std::nullopt;
  }
  try {
    resolve(spec);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
  if (touches(before_, spec, said_)) return std::nullopt;
  return spec;
}

void Advisor::price(Combination combination, Combinations& into) {
  const std::optional<RunSpec> spec = changed(combination);
  if (!spec) return;
  try {
    const RunEstimate price = estimate_run(*spec, cluster_, engine_, products_, &tapes_);
    combination.step_s = price.estimate.time.step_s;
    combination.bytes = closed_form_bytes(*spec, price.estimate);
  } catch (const ConfigError&) {
    return;
  }
  into.push_back(combination);
}

void Advisor::price_singles() {
  Combinations singles;
  for (size_t i = 0; i < space_.size(); ++i) {
    Combination one;
    one.changes[0] = static_cast<int>(i);
    one.count = 1;
    one.subjects = 1U << static_cast<uint32_t>(space_[i].subject);
    price(one, singles);
  }
  priced_.push_back(std::move(singles));
}

// Every one with `count` - 1 changes and a later single one of another subject.
void Advisor::price_more(size_t count) {
  Combinations more;
  for (const Combination& fewer : priced_[count - 2]) {
    for (size_t i = static_cast<size_t>(fewer.changes[count - 2]) + 1; i < space_.size(); ++i) {
      const uint32_t subject = 1U << static_cast<uint32_t>(space_[i].subject);
      if ((fewer.subjects & subject) != 0 || more.size() >= kMostPriced) continue;
      Combination combination = fewer;
      combination.changes[count - 1] = static_cast<int>(i);
      combination.count = count;
      combination.subjects |= subject;
      price(combination, more);
    }
  }
  priced_.push_back(std::move(more));
}

std::optional<FitChange> Advisor::planned(const Combination& combination) {
  std::optional<RunSpec> spec = changed(combination);
  if (!spec) return std::nullopt;
  FitChange change;
  try {
    const Plan plan = make_plan(
        {.spec = *spec, .cluster = cluster_, .engine = engine_, .products = products_}, planner_);
    change.peak_bytes = plan.peak_bytes();
    change.step_s = plan.step->estimate.time.step_s;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
  change.settings = settings_of_change(before_, *spec, open_);
  change.spec = *std::move(spec);
  return change;
}

// How far closed forms are off is much the same for runs that differ in a few settings.
void Advisor::compare_with_exact() {
  const RunEstimate price = estimate_run(before_, cluster_, engine_, products_, &tapes_);
  const double closed = closed_form_bytes(before_, price.estimate);
  const auto exact = static_cast<double>(
      make_plan({.spec = before_, .cluster = cluster_, .engine = engine_, .products = products_},
                planner_)
          .peak_bytes());
  step_s_ = price.estimate.time.step_s;
  if (closed > 0) exact_share_ = std::clamp(exact / closed, 0.5, 2.0);
}

// Cheapest first.
Advisor::Combinations Advisor::likely() const {
  const double most = static_cast<double>(limit_) * kTrust / exact_share_;
  Combinations list;
  for (const Combinations& some : priced_) {
    std::copy_if(some.begin(), some.end(), std::back_inserter(list),
                 [&](const Combination& one) { return one.bytes <= most; });
  }
  std::sort(list.begin(), list.end(), is_cheaper);
  return list;
}

Advisor::Combinations Advisor::smallest() const {
  Combinations list;
  for (const Combinations& some : priced_) list.insert(list.end(), some.begin(), some.end());
  std::sort(list.begin(), list.end(), is_smaller);
  return list;
}

// What needs no less than a variation of the same idea that did not fit.
bool Advisor::is_hopeless(const Combination& combination) const {
  return std::any_of(failed_.begin(), failed_.end(), [&](const Combination& failed) {
    return failed.subjects == combination.subjects && failed.bytes <= combination.bytes;
  });
}

// Changes more than it needs: a part of it fits, or will when it is planned.
bool Advisor::is_too_much(const Combination& combination) const {
  const auto known = [&](const Accepted& one) { return combination.extends(one.combination); };
  if (std::any_of(accepted_.begin(), accepted_.end(), known)) return true;
  for (size_t fewer = 0; fewer + 1 < combination.count; ++fewer) {
    for (const Combination& part : priced_[fewer]) {
      const bool fits = part.bytes * exact_share_ * kTrust <= static_cast<double>(limit_);
      if (fits && combination.extends(part) && !is_hopeless(part)) return true;
    }
  }
  return false;
}

bool Advisor::is_known_idea(const Combination& combination) const {
  return std::any_of(accepted_.begin(), accepted_.end(), [&](const Accepted& known) {
    return known.combination.subjects == combination.subjects;
  });
}

bool Advisor::is_done(const Combination& combination) const {
  const auto same = [&](const Combination& other) { return other.changes == combination.changes; };
  return std::any_of(accepted_.begin(), accepted_.end(),
                     [&](const Accepted& known) { return same(known.combination); }) ||
         std::any_of(refused_.begin(), refused_.end(), same);
}

// Plans it; whether it fits.
bool Advisor::try_out(const Combination& combination) {
  ++plans_;
  std::optional<FitChange> change = planned(combination);
  if (change && change->peak_bytes <= limit_) {
    std::erase_if(accepted_, [&](const Accepted& known) {
      return known.combination.extends(combination);  // which turns out to be enough
    });
    accepted_.push_back({combination, *std::move(change)});
    return true;
  }
  (change ? failed_ : refused_).push_back(combination);
  if (change && (!nearest_ || change->peak_bytes < nearest_->peak_bytes)) nearest_ = change;
  return false;
}

void Advisor::accept(const Combinations& order, Ideas ideas, int most_plans) {
  const int last = plans_ + most_plans;
  for (const Combination& combination : order) {
    if (accepted_.size() >= most_ || plans_ >= last) return;
    if (is_hopeless(combination) || is_done(combination) || is_too_much(combination)) continue;
    if (ideas == Ideas::kNew && is_known_idea(combination)) continue;
    try_out(combination);
  }
}

// In the place of the most expensive one, where all are combinations.
void Advisor::accept_cheapest_single() {
  const auto is_single = [](const Accepted& one) { return one.combination.count == 1; };
  if (std::any_of(accepted_.begin(), accepted_.end(), is_single)) return;
  for (const Combination& combination : likely()) {
    if (combination.count > 1 || is_hopeless(combination)) continue;
    if (plans_ >= kMostPlans) return;
    if (!try_out(combination)) continue;
    if (accepted_.size() <= most_) return;
    accepted_.erase(std::max_element(
        accepted_.begin(), accepted_.end() - 1,
        [](const Accepted& a, const Accepted& b) { return a.change.step_s < b.change.step_s; }));
    return;
  }
}

FitAdvice Advisor::run() {
  compare_with_exact();
  price_singles();
  price_more(2);
  accept(likely(), Ideas::kNew, kMostPlans);
  if (!accepted_.empty() && most_ > 1) accept_cheapest_single();
  accept(likely(), Ideas::kNew, kMostPlans);
  if (accepted_.size() < most_) {
    price_more(3);
    accept(likely(), Ideas::kNew, kMostPlans);
    accept(smallest(), Ideas::kNew, kMostUnlikelyPlans);
    accept(likely(), Ideas::kAny, kMostUnlikelyPlans);
  }
  FitAdvice advice;
  advice.step_s = step_s_;
  std::sort(accepted_.begin(), accepted_.end(), [](const Accepted& a, const Accepted& b) {
    return std::tie(a.change.step_s, a.change.settings) <
           std::tie(b.change.step_s, b.change.settings);
  });
  for (Accepted& one : accepted_) advice.changes.push_back(std::move(one.change));
  if (advice.changes.empty()) advice.nearest = std::move(nearest_);
  return advice;
}

std::optional<FitChange> Advisor::smallest_that_fits(double exact_share) {
  exact_share_ = exact_share;
  price_singles();
  price_more(2);
  Combinations order = smallest();
  price({}, order);  // as it is
  std::sort(order.begin(), order.end(), is_smaller);
  for (size_t i = 0; i < order.size() && plans_ < 2; ++i) {
    if (order[i].bytes * exact_share_ > static_cast<double>(limit_)) break;
    if (!is_hopeless(order[i]) && try_out(order[i])) return std::move(accepted_.back().change);
  }
  return std::nullopt;
}

constexpr int64_t kMostTimesDevices = 64;

// The same run on more devices: more replicas where the batch has sequences for them, else more
// stages.
std::optional<RunSpec> on_more_devices(const RunSpec& spec, int64_t factor) {
  RunSpec more = spec;
  const int64_t unit = spec.train.micro_batch * spec.parallel.replicas() * factor;
  int64_t& axis = spec.train.global_batch % unit == 0
                      ? (spec.parallel.fsdp > 1 ? more.parallel.fsdp : more.parallel.dp)
                      : more.parallel.pp;
  axis *= factor;
  if (&axis == &more.parallel.pp) more.parallel.stage_layers.clear();
  try {
    resolve(more);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
  return more;
}

// The cluster with so many devices, where it can have them.
std::optional<Cluster> larger_cluster(const Cluster& cluster, int64_t devices) {
  if (devices > kMaxDevices) return std::nullopt;
  try {
    return with_devices(cluster, std::max(devices, cluster.devices));
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

void add_devices(const RunSpec& spec, const OpenSettings& open, const Cluster& cluster,
                 const Engine& engine, ScalePlanner& planner, BlockProducts products,
                 double exact_share, FitAdvice& advice) {
  for (int64_t factor = 2; factor <= kMostTimesDevices; factor *= 2) {
    const int64_t devices = spec.parallel.world() * factor;
    const std::optional<RunSpec> more = on_more_devices(spec, factor);
    const std::optional<Cluster> larger = larger_cluster(cluster, devices);
    if (!more || !larger) continue;
    advice.on_devices =
        Advisor(*more, open, *larger, engine, planner, 1, products).smallest_that_fits(exact_share);
    if (!advice.on_devices) continue;
    advice.devices = devices;
    advice.on_devices->settings = settings_of_change(spec, advice.on_devices->spec, open);
    return;
  }
}

}  // namespace

FitAdvice advise_fit(const RunSpec& spec, const OpenSettings& open, const Cluster& cluster,
                     const Engine& engine, ScalePlanner& planner, size_t most,
                     BlockProducts products) {
  Advisor advisor(spec, open, cluster, engine, planner, most, products);
  FitAdvice advice = advisor.run();
  if (!advice.changes.empty()) return advice;
  add_devices(spec, open, cluster, engine, planner, products, advisor.exact_share(), advice);
  return advice;
}

std::optional<FitChange> cheapest_fit(const RunSpec& spec, const OpenSettings& open,
                                      const Cluster& cluster, const Engine& engine,
                                      ScalePlanner& planner, const std::set<std::string>& said,
                                      BlockProducts products) {
  Advisor advisor(spec, open, cluster, engine, planner, 1, products);
  std::set<std::string> kept = said;
  kept.insert("train.gradients");
  advisor.keep(std::move(kept));
  FitAdvice advice = advisor.run();
  if (advice.changes.empty()) return std::nullopt;
  return std::move(advice.changes.front());
}

}  // namespace tessera
