#include "cost/fit_changes.h"

#include <algorithm>
#include <functional>
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
    add("split", fmt::format("parallel.{}={} parallel.{}={}", axis, more, replicas, fewer),
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

// Pairs are tried in this order, and no more than so many.
constexpr size_t kMostPairs = 24;

}  // namespace

std::vector<FitChange> changes_that_fit(const RunSpec& spec, const Cluster& cluster,
                                        ScalePlanner& planner, size_t most) {
  const std::vector<Change> changes = Changes(spec, cluster).list();
  const int64_t limit = memory_limit(spec, cluster);
  Trial trial(spec, cluster, planner);
  std::vector<FitChange> fitting;
  std::vector<std::pair<int64_t, const Change*>> helpful;  // bytes that are left, and the change
  for (const Change& change : changes) {
    std::optional<FitChange> tried = trial({&change});
    if (!tried) continue;
    helpful.emplace_back(tried->peak_bytes, &change);
    if (tried->peak_bytes <= limit) fitting.push_back(std::move(*tried));
  }
  const auto cheaper = [](const FitChange& a, const FitChange& b) {
    return std::tie(a.step_s, a.settings) < std::tie(b.step_s, b.settings);
  };
  std::sort(fitting.begin(), fitting.end(), cheaper);
  if (fitting.size() < most) {
    // Those that save most, with each other.
    std::stable_sort(helpful.begin(), helpful.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<FitChange> pairs;
    size_t tried = 0;
    for (size_t i = 0; i < helpful.size() && tried < kMostPairs; ++i) {
      for (size_t j = 0; j < i && tried < kMostPairs; ++j) {
        const Change* a = helpful[i].second;
        const Change* b = helpful[j].second;
        if (a->subject == b->subject) continue;
        ++tried;
        std::optional<FitChange> both = trial({b, a});
        if (both && both->peak_bytes <= limit) pairs.push_back(std::move(*both));
      }
    }
    std::sort(pairs.begin(), pairs.end(), cheaper);
    // A pair that holds a change that fits by itself says nothing new.
    for (FitChange& pair : pairs) {
      const bool known = std::any_of(fitting.begin(), fitting.end(), [&](const FitChange& one) {
        return one.settings.size() == 1 && std::find(pair.settings.begin(), pair.settings.end(),
                                                     one.settings.front()) != pair.settings.end();
      });
      if (!known) fitting.push_back(std::move(pair));
    }
  }
  if (fitting.size() > most) fitting.resize(most);
  return fitting;
}

}  // namespace tessera
