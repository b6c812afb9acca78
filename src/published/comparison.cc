#include "published/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "cost/step/to_double.h"
#include "published/bubble.h"
#include "published/entry.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr double kGiB = 1 << 30;
constexpr const char* kStepTime = "step time";
constexpr const char* kMemory = "memory";
constexpr const char* kBubble = "bubble";
constexpr const char* kOutsideMemory = "memory seen from outside";

// A run of which one is chosen: the same work on the same devices.
struct Choice {
  std::string work;
  double measured = 0, predicted = 0;
};

class EntryComparison {
 public:
  EntryComparison(const json& entry, const PublishedConstants& constants,
                  std::vector<Comparison>& out)
      : entry_(entry), constants_(constants), id_(entry.value("id", "")), out_(out) {}

  // Returns the run's choice for regret where it has a step time.
  std::optional<Choice> compare(std::vector<Guess>& guesses) {
    const json results = entry_.value("results", json::object());
    if (results.contains("rows") && results.contains("columns")) {
      compare_bubbles(results);
      return std::nullopt;
    }
    PublishedRun run = run_of_entry(entry_, constants_);
    guesses = run.guesses;
    CostModel model(run.workload);
    const Estimate estimate = model.estimate(run.strategy);
    bool compared = compare_memory(run, estimate);
    compared = compare_parts(run, model, results, estimate) || compared;
    if (!run.step_s) {
      require_config(compared, "it gives no time, rate or memory that a run has");
      return std::nullopt;
    }
    add(kStepTime, "", *run.step_s, estimate.time.step_s);
    const Workload& w = run.workload;
    // Not the vocabulary, which is padded as tp needs it.
    return Choice{fmt::format("{} {} {} {} {} {} {}", w.model.layers, w.model.hidden, w.model.heads,
                              w.cluster.device.name, w.cluster.devices, w.global_batch, w.seq_len),
                  *run.step_s, estimate.time.step_s};
  }

 private:
  void add(const std::string& what, const std::string& part, double measured, double predicted) {
    const double error =
        what == kBubble ? 100 * (predicted - measured) : 100 * (predicted / measured - 1);
    require_config(error > -1e9 && error < 1e9 && std::isfinite(measured),
                   "{} is given as {:g}: nothing can be compared with it", what, measured);
    out_.push_back({id_, what, part, measured, predicted, error});
  }

  void compare_bubbles(const json& results) {
    const json& columns = results["columns"];
    bool any = false;
    for (const json& row : results["rows"]) {
      require_config(row.is_array() && row.size() == columns.size() && row.size() > 3 &&
                         row[0].is_string() && row[1].is_number_integer() &&
                         row[2].is_number_integer(),
                     "a row of a bubble table is model, p, m and rates");
      any = compare_bubble_row(columns, row) || any;
    }
    require_config(any, "the times of the passes that the table follows from are not known");
  }

  bool compare_bubble_row(const json& columns, const json& row) {
    const auto name = row[0].get<std::string>();
    const auto ranks = row[1].get<int>(), micro_batches = row[2].get<int>();
    std::optional<ProfiledTimes> times = profiled_times(name, ranks, micro_batches);
    const bool derived = !times;
    for (size_t i = 3; derived && i < row.size(); ++i) {
      if (columns[i] != "1F1B" || !row[i].is_number()) continue;
      times = derived_times(name, ranks, micro_batches, row[i].get<double>());
    }
    if (!times) return false;
    bool any = false;
    for (size_t i = 3; i < row.size(); ++i) {
      const auto column = columns[i].get<std::string>();
      if (derived && column == "1F1B") continue;  // it went in
      const std::optional<double> bubble = published_bubble(*times, ranks, micro_batches, column);
      if (!bubble || !row[i].is_number()) continue;
      add(kBubble, fmt::format("{}, p {}, m {}, {}", name, ranks, micro_batches, column),
          row[i].get<double>(), *bubble);
      any = true;
    }
    return any;
  }

  bool compare_memory(const PublishedRun& run, const Estimate& estimate) {
    const size_t before = out_.size();
    const int64_t stage_ranks = run.strategy.world() / run.strategy.pp;
    for (size_t rank = 0; rank < run.rank_bytes.size(); ++rank) {
      const auto stage = static_cast<size_t>(static_cast<int64_t>(rank) / stage_ranks);
      if (stage >= estimate.stages.size()) break;
      add(kMemory, fmt::format("rank {}", rank), run.rank_bytes[rank],
          to_double(estimate.stages[stage].total()));
    }
    if (run.last_rank_bytes && run.memory_is_certain) {
      add(kMemory, "last rank", *run.last_rank_bytes, to_double(estimate.stages.back().total()));
    } else if (run.peak_bytes && run.rank_bytes.empty()) {
      const auto fullest = static_cast<size_t>(estimate.fullest_stage);
      add(kOutsideMemory, "fullest rank", *run.peak_bytes,
          to_double(estimate.stages[fullest].total()) +
              run.workload.cluster.device.reserved_bytes.value);
    }
    return out_.size() > before;
  }

  // Parts of a run that some sources give instead: times of one layer, kinds of memory.
  bool compare_parts(const PublishedRun& run, CostModel& model, const json& results,
                     const Estimate& estimate) {
    const size_t before = out_.size();
    const auto number = [&](const char* key) -> std::optional<double> {
      const auto found = results.find(key);
      if (found == results.end() || !found->is_number()) return std::nullopt;
      return found->get<double>();
    };
    const PassTimes pass = model.pass_times(run.strategy);
    if (const auto ms = number("layer_fwd_ms")) {
      add("layer time", "forward", *ms * 1e-3, pass.forward_s);
    }
    if (const auto ms = number("layer_bwd_ms")) {
      add("layer time", "backward", *ms * 1e-3, pass.backward_s);
    }
    const StageMemory& first = estimate.stages.front();
    const auto part = [&](MemoryPart which) {
      return to_double(first.bytes[static_cast<size_t>(which)]);
    };
    if (const auto gib = number("mem_params_opt_gib")) {
      add("memory of states", "first stage", *gib * kGiB,
          part(MemoryPart::kParameters) + part(MemoryPart::kGradients) +
              part(MemoryPart::kOptimizer));
    }
    if (const auto gib = number("mem_activations_gib")) {
      add("memory of activations", "first stage", *gib * kGiB, part(MemoryPart::kActivations));
    }
    if (results.contains("activation_pct_of_tp_baseline")) {
      compare_shares(run, model, results["activation_pct_of_tp_baseline"]);
    }
    return out_.size() > before;
  }

  // Activations of the first stage, of those without sequence parallelism and recomputation.
  void compare_shares(const PublishedRun& run, CostModel& model, const json& shares) {
    const auto kept = [&](bool sequence_parallel, Recompute recompute) {
      Strategy strategy = run.strategy;
      strategy.sequence_parallel = sequence_parallel;
      strategy.recompute = recompute;
      strategy.recompute_layers = -1;  // of every layer, whatever an open choice took
      const Estimate estimate = model.estimate(strategy);
      return to_double(
          estimate.stages.front().bytes[static_cast<size_t>(MemoryPart::kActivations)]);
    };
    const double whole = kept(false, Recompute::kNone);
    struct Way {
      const char* key;
      bool sequence_parallel;
      Recompute recompute;
    };
    for (const Way& way :
         {Way{"seq_par", true, Recompute::kNone}, Way{"selective", false, Recompute::kSelective},
          Way{"seq_par+selective", true, Recompute::kSelective},
          Way{"full", false, Recompute::kFull}}) {
      const auto found = shares.find(way.key);
      if (found == shares.end() || !found->is_number()) continue;
      add("share of activations", way.key, found->get<double>(),
          100 * kept(way.sequence_parallel, way.recompute) / whole);
    }
  }

  const json& entry_;
  const PublishedConstants& constants_;
  std::string id_;
  std::vector<Comparison>& out_;
};

// What a family is judged by comes first.
int priority(const std::string& what) {
  if (what == kMemory) return 0;
  if (what == kStepTime) return 1;
  if (what == kOutsideMemory) return 3;
  return 2;
}

void add_regret(QuantityReport& report, const std::vector<Choice>& choices) {
  std::map<std::string, std::vector<Choice>> sets;
  for (const Choice& choice : choices) sets[choice.work].push_back(choice);
  double sum = 0;
  for (const auto& [work, runs] : sets) {
    if (runs.size() < 3) continue;
    const auto measured = [](const Choice& a, const Choice& b) { return a.measured < b.measured; };
    const auto predicted = [](const Choice& a, const Choice& b) {
      return a.predicted < b.predicted;
    };
    const Choice& fastest = *std::min_element(runs.begin(), runs.end(), measured);
    const Choice& chosen = *std::min_element(runs.begin(), runs.end(), predicted);
    sum += 100 * (chosen.measured / fastest.measured - 1);
    ++report.regret_sets;
  }
  if (report.regret_sets > 0) report.regret_pct = sum / report.regret_sets;
}

QuantityReport report_of(const std::string& what, const std::vector<const Comparison*>& list) {
  std::vector<double> predicted, measured;
  for (const Comparison* comparison : list) {
    predicted.push_back(comparison->predicted);
    measured.push_back(comparison->measured);
  }
  QuantityReport report{what, summarize(predicted, measured), 0, 0};
  if (what != kBubble) return report;
  report.errors.mean_abs_pct = report.errors.bias_pct = report.errors.worst_pct = 0;
  for (const Comparison* c : list) {
    report.errors.mean_abs_pct += std::max(c->error_pct, -c->error_pct) / report.errors.n;
    report.errors.bias_pct += c->error_pct / report.errors.n;
    const double worst = std::max(report.errors.worst_pct, -report.errors.worst_pct);
    if (std::max(c->error_pct, -c->error_pct) > worst) report.errors.worst_pct = c->error_pct;
  }
  return report;
}

void finish_family(FamilyReport& family, const std::vector<Comparison>& comparisons,
                   const std::vector<Choice>& choices) {
  std::vector<std::string> quantities;
  std::map<std::string, std::vector<const Comparison*>> lists;
  for (const Comparison& comparison : comparisons) {
    if (family_of(comparison.id) != family.family) continue;
    auto& list = lists[comparison.what];
    if (list.empty()) quantities.push_back(comparison.what);
    list.push_back(&comparison);
  }
  std::stable_sort(quantities.begin(), quantities.end(),
                   [](const auto& a, const auto& b) { return priority(a) < priority(b); });
  for (const std::string& what : quantities) {
    family.quantities.push_back(report_of(what, lists[what]));
    if (what == kStepTime) add_regret(family.quantities.back(), choices);
  }
}

}  // namespace

int PublishedReport::skipped() const {
  size_t count = 0;
  for (const FamilyReport& family : families) count += family.skipped.size();
  return static_cast<int>(count);
}

PublishedReport compare_published(const json& file, const PublishedConstants& constants) {
  const json* entries = file.is_array() ? &file : nullptr;
  if (file.is_object() && file.contains("entries")) entries = &file["entries"];
  require_config(entries != nullptr && entries->is_array(),
                 "published results are a list, or an object with a list called entries");
  PublishedReport report;
  std::map<std::string, std::vector<Choice>> choices;
  for (const json& entry : *entries) {
    require_config(entry.is_object() && entry.contains("id") && entry["id"].is_string(),
                   "entry {} has no id", report.entries);
    ++report.entries;
    const auto id = entry["id"].get<std::string>();
    const std::string name = family_of(id);
    auto family = std::find_if(report.families.begin(), report.families.end(),
                               [&](const FamilyReport& f) { return f.family == name; });
    if (family == report.families.end()) {
      report.families.push_back({name, {}, {}});
      family = report.families.end() - 1;
    }
    const size_t before = report.comparisons.size();
    std::vector<Guess> guesses;
    try {
      const std::optional<Choice> choice =
          EntryComparison(entry, constants, report.comparisons).compare(guesses);
      if (choice) choices[name].push_back(*choice);
    } catch (const Error& error) {
      report.comparisons.resize(before);
      family->skipped.push_back({id, error.what()});
    } catch (const json::exception& error) {
      report.comparisons.resize(before);
      family->skipped.push_back({id, error.what()});
    }
    if (!guesses.empty()) report.guesses.emplace_back(id, std::move(guesses));
  }
  for (FamilyReport& family : report.families) {
    finish_family(family, report.comparisons, choices[family.family]);
  }
  return report;
}

}  // namespace tessera
