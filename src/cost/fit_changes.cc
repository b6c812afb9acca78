#include "cost/fit_changes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "spec/validate.h"

namespace tessera {
namespace {

// One thing to try. Changes of one subject exclude each other.
struct Change {
  std::string subject;
  std::string setting;  // several are separated by spaces
  std::function<void(RunSpec&)> apply;
};

// What each step of recomputation costs is for the cost model to say; here is their order.
constexpr std::string_view kRecompute[] = {"light", "selective", "full"};

class Changes {
 public:
  Changes(const RunSpec& spec, const Cluster& cluster) : spec_(spec), cluster_(cluster) {}

  std::vector<Change> list() {
    recompute();
    sharding();
    batch();
    split();
    return std::move(changes_);
  }

 private:
  void add(std::string subject, std::string setting, std::function<void(RunSpec&)> apply) {
    changes_.push_back({std::move(subject), std::move(setting), std::move(apply)});
  }
  void recompute();
  void sharding();
  void batch();
  void split();
  void move_to(const std::string& axis, int64_t ParallelSpec::*size);

  const RunSpec& spec_;
  const Cluster& cluster_;
  std::vector<Change> changes_;
};

void Changes::recompute() {
  const std::string& now = spec_.parallel.recompute;
  if (now == "full") return;
  for (const std::string_view kind : kRecompute) {
    if (now == kind) continue;
    add("recompute", fmt::format("parallel.recompute={}", kind),
        [kind](RunSpec& s) { s.parallel.recompute = kind; });
  }
}

void Changes::sharding() {
  const ParallelSpec& p = spec_.parallel;
  if (p.replicas() * p.cp > 1) {
    for (int64_t zero = p.zero + 1; zero <= 3; ++zero) {
      add("zero", fmt::format("parallel.zero={}", zero),
          [zero](RunSpec& s) { s.parallel.zero = zero; });
    }
  }
  if (p.tp > 1 && !p.sequence_parallel) {
    add("sequence_parallel", "parallel.sequence_parallel=true",
        [](RunSpec& s) { s.parallel.sequence_parallel = true; });
  }
  if (spec_.train.dtype == DType::kBF16 && spec_.train.gradients != "bf16") {
    add("gradients", "train.gradients=bf16", [](RunSpec& s) { s.train.gradients = "bf16"; });
  }
}

void Changes::batch() {
  for (int64_t size = spec_.train.micro_batch / 2; size >= 1; size /= 2) {
    add("micro_batch", fmt::format("train.micro_batch={}", size),
        [size](RunSpec& s) { s.train.micro_batch = size; });
  }
}

// More ranks along `axis`, fewer replicas.
void Changes::move_to(const std::string& axis, int64_t ParallelSpec::*size) {
  const ParallelSpec& p = spec_.parallel;
  const std::string replicas = p.fsdp > 1 ? "fsdp" : "dp";
  int64_t ParallelSpec::*const from = p.fsdp > 1 ? &ParallelSpec::fsdp : &ParallelSpec::dp;
  for (int64_t factor = 2; factor <= 4 && p.*from % factor == 0; factor *= 2) {
    const int64_t more = p.*size * factor;
    const int64_t fewer = p.*from / factor;
    add(axis, fmt::format("parallel.{}={} parallel.{}={}", axis, more, replicas, fewer),
        [=](RunSpec& s) {
          s.parallel.*size = more;
          s.parallel.*from = fewer;
          s.parallel.stage_layers.clear();
        });
  }
}

void Changes::split() {
  if (spec_.parallel.tp < cluster_.node_devices()) move_to("tp", &ParallelSpec::tp);
  move_to("pp", &ParallelSpec::pp);
  move_to("cp", &ParallelSpec::cp);
}

class Trial {
 public:
  Trial(const RunSpec& spec, const Cluster& cluster, ScalePlanner& planner)
      : spec_(spec), cluster_(cluster), planner_(planner) {}

  // Nothing where the change is impossible.
  std::optional<FitChange> operator()(const std::vector<const Change*>& changes) {
    FitChange result;
    result.spec = spec_;
    for (const Change* change : changes) {
      change->apply(result.spec);
      for (const std::string_view setting : split(change->setting, ' ')) {
        result.settings.emplace_back(setting);
      }
    }
    try {
      resolve(result.spec);
      const RunPlan plan = plan_run(result.spec, cluster_, planner_);
      result.peak_bytes = plan.ranks.heaviest().total_bytes();
      result.step_s = plan.estimate.time.step_s;
    } catch (const ConfigError&) {
      return std::nullopt;
    }
    return result;
  }

 private:
  const RunSpec& spec_;
  const Cluster& cluster_;
  ScalePlanner& planner_;
};

// Two changes together are tried for so many pairs, those that save most first.
constexpr size_t kMostPairs = 24;

void sort_by_time(std::vector<FitChange>& changes) {
  std::sort(changes.begin(), changes.end(), [](const FitChange& a, const FitChange& b) {
    return std::tie(a.step_s, a.settings) < std::tie(b.step_s, b.settings);
  });
}

bool contains(const FitChange& pair, const FitChange& one) {
  return std::all_of(one.settings.begin(), one.settings.end(), [&](const std::string& setting) {
    return std::find(pair.settings.begin(), pair.settings.end(), setting) != pair.settings.end();
  });
}

using Helpful = std::vector<std::pair<int64_t, const Change*>>;  // bytes of the fullest rank

std::vector<FitChange> pairs_that_fit(Helpful helpful, int64_t limit, Trial& trial) {
  std::stable_sort(helpful.begin(), helpful.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<FitChange> fitting;
  size_t tried = 0;
  for (size_t i = 0; i < helpful.size(); ++i) {
    for (size_t j = 0; j < i && tried < kMostPairs; ++j) {
      if (helpful[i].second->subject == helpful[j].second->subject) continue;
      ++tried;
      std::optional<FitChange> both = trial({helpful[j].second, helpful[i].second});
      if (both && both->peak_bytes <= limit) fitting.push_back(std::move(*both));
    }
  }
  sort_by_time(fitting);
  return fitting;
}

}  // namespace

std::vector<FitChange> changes_that_fit(const RunSpec& spec, const Cluster& cluster,
                                        ScalePlanner& planner, size_t most) {
  const std::vector<Change> changes = Changes(spec, cluster).list();
  const int64_t limit = memory_limit(spec, cluster);
  Trial trial(spec, cluster, planner);
  std::map<std::string, FitChange> cheapest;  // by subject: of several sizes the cheapest
  Helpful helpful;
  for (const Change& change : changes) {
    std::optional<FitChange> tried = trial({&change});
    if (!tried) continue;
    helpful.emplace_back(tried->peak_bytes, &change);
    if (tried->peak_bytes > limit) continue;
    const auto [known, fresh] = cheapest.try_emplace(change.subject, *tried);
    if (!fresh && tried->step_s < known->second.step_s) known->second = std::move(*tried);
  }
  std::vector<FitChange> fitting;
  for (auto& [subject, change] : cheapest) fitting.push_back(std::move(change));
  sort_by_time(fitting);
  if (fitting.size() < most) {
    const size_t singles = fitting.size();
    // A pair with a change that fits by itself says nothing new.
    for (FitChange& pair : pairs_that_fit(std::move(helpful), limit, trial)) {
      const auto end = fitting.begin() + static_cast<std::ptrdiff_t>(singles);
      const bool known = std::any_of(fitting.begin(), end,
                                     [&](const FitChange& one) { return contains(pair, one); });
      if (!known) fitting.push_back(std::move(pair));
    }
  }
  if (fitting.size() > most) fitting.resize(most);
  return fitting;
}

}  // namespace tessera
