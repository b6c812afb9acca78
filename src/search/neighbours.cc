#include "search/neighbours.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/text/units.h"
#include "search/space.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

// Gives `axis` another size at the expense of dp.
bool resize(Strategy& s, int64_t Strategy::*axis, int64_t size) {
  const int64_t rest = s.*axis * s.dp;
  if (size < 1 || rest % size != 0) return false;
  s.*axis = size;
  s.dp = rest / size;
  s.stage_layers.clear();
  s.stage_recompute.clear();
  s.recompute_layers = -1;
  return true;
}

void add_axis(std::vector<Change>& changes, const Strategy& plan, std::string_view name,
              int64_t Strategy::*axis) {
  for (const int64_t size : {plan.*axis * 2, plan.*axis / 2}) {
    Strategy s = plan;
    if (!resize(s, axis, size)) continue;
    if (s.tp == 1) s.sequence_parallel = false;
    if (s.expert_tp > 1) s.expert_tp = s.tp;
    s.shard = 0;
    if (s.pp == 1) {
      s.schedule = PipelineKind::k1F1B;
      s.virtual_stages = 1;
    }
    changes.push_back({fmt::format("{} {}", name, size), s});
  }
}

// Whether the schedule can have this many micro-batches and stages.
bool is_schedule_possible(const Workload& w, const FixedAxes& fixed, const Strategy& s) {
  const auto all = variants_of(w, s, fixed).schedules;
  return std::any_of(all.begin(), all.end(), [&](const ScheduleChoice& choice) {
    return choice.kind == s.schedule && choice.virtual_stages == s.virtual_stages;
  });
}

std::vector<Change> all_changes(const Workload& w, const Strategy& plan) {
  std::vector<Change> changes;
  add_axis(changes, plan, "tp", &Strategy::tp);
  add_axis(changes, plan, "pp", &Strategy::pp);
  add_axis(changes, plan, "cp", &Strategy::cp);
  const auto add = [&](std::string text, auto&& change) {
    Strategy s = plan;
    change(s);
    changes.push_back({std::move(text), std::move(s)});
  };
  for (const int64_t micro : {plan.micro_batch * 2, plan.micro_batch / 2}) {
    if (micro < 1) continue;
    add(fmt::format("micro-batch {}", micro), [&](Strategy& s) { s.micro_batch = micro; });
  }
  if (plan.recompute != Recompute::kNone) {
    add("no recomputation", [](Strategy& s) {
      s.recompute = Recompute::kNone;
      s.recompute_layers = -1;
      s.stage_recompute.clear();
    });
  } else {
    add("full recomputation", [](Strategy& s) { s.recompute = Recompute::kFull; });
  }
  changes.back().of_recompute = true;
  for (const int64_t zero : {0, 1, 2, 3}) {
    if (zero == plan.zero || plan.dp * plan.cp == 1) continue;
    add(fmt::format("ZeRO-{}", zero), [&](Strategy& s) {
      s.zero = zero;
      s.shard = 0;
      s.release_after_forward = true;
    });
  }
  if (plan.pp > 1) {
    for (const ScheduleChoice& choice : variants_of(w, plan, {}).schedules) {
      if (choice.kind == plan.schedule && choice.virtual_stages == plan.virtual_stages) continue;
      const std::string stages = schedule_kind(choice.kind).any_virtual_stages
                                     ? fmt::format(" x{}", choice.virtual_stages)
                                     : "";
      add(fmt::format("{}{}", name_of(choice.kind), stages), [&](Strategy& s) {
        s.schedule = choice.kind;
        s.virtual_stages = choice.virtual_stages;
        s.stage_layers.clear();
        s.stage_recompute.clear();
      });
    }
  }
  return changes;
}

std::pair<std::string, double> largest_growth(const StepTime& from, const StepTime& to) {
  std::pair<std::string, double> most = {
      "kernels", (to.compute_s - to.recompute_s) - (from.compute_s - from.recompute_s)};
  const auto meet = [&](std::string_view name, double growth) {
    if (growth > most.second) most = {std::string(name), growth};
  };
  meet("recomputation", to.recompute_s - from.recompute_s);
  for (size_t i = 0; i < kNumCommAxes; ++i) {
    meet(fmt::format("{} communication", name_of(static_cast<CommAxis>(i))),
         to.exposed_s[i] - from.exposed_s[i]);
  }
  meet("bubble", to.bubble_s - from.bubble_s);
  meet("optimizer", to.optimizer_s - from.optimizer_s);
  return most;
}

struct Unit {
  const char* name;
  double times;  // so many in a second
};

Unit unit_of(double seconds) {
  if (seconds < 1e-3) return {"us", 1e6};
  return seconds < 1 ? Unit{"ms", 1e3} : Unit{"s", 1};
}

std::string sentence_of(const Neighbour& n) {
  if (!n.fits) {
    return fmt::format("{} lacks {:.1f} GiB", n.change,
                       static_cast<double>(n.missing_bytes) / kGibibyte);
  }
  const Unit unit = unit_of(std::max(n.more_s, n.term_s));
  return fmt::format("{} takes {:.3g} {} more ({} {:+.3g} {})", n.change, n.more_s * unit.times,
                     unit.name, n.term, n.term_s * unit.times, unit.name);
}

}  // namespace

std::vector<Change> changes_of(const Workload& workload, const FixedAxes& fixed,
                               const Strategy& strategy) {
  std::vector<Change> changes = all_changes(workload, strategy);
  std::erase_if(changes, [&](const Change& change) {
    return !keeps_fixed(fixed, change.strategy) ||
           !why_impossible(workload, change.strategy).empty() ||
           !is_schedule_possible(workload, fixed, change.strategy);
  });
  return changes;
}

std::optional<SimulatedStrategy> simulate_change(StrategySimulator& simulator,
                                                 const FixedAxes& fixed, const Change& change,
                                                 int64_t limit) {
  std::vector<Strategy> ways = {change.strategy};
  if (!change.of_recompute) {
    Strategy none = change.strategy;
    none.recompute = Recompute::kNone;
    none.stage_recompute.clear();
    none.recompute_layers = -1;
    ways.push_back(none);
    for (Strategy& other : other_stages(simulator.model(), change.strategy, limit)) {
      ways.push_back(std::move(other));
    }
  }
  std::optional<SimulatedStrategy> best;
  for (const Strategy& way : ways) {
    if (!is_allowed(fixed, simulator.model().workload(), way)) continue;
    if (simulator.model().peak_bytes(way) > limit) continue;
    SimulatedStrategy plan = simulator.simulate(way);
    if (!best.has_value() || plan.step_s() < best->step_s()) best = std::move(plan);
  }
  return best;
}

std::vector<Neighbour> neighbours_of(StrategySimulator& simulator, const FixedAxes& fixed,
                                     const SimulatedStrategy& plan, int64_t limit) {
  const Workload& w = simulator.model().workload();
  std::vector<Neighbour> neighbours;
  for (const Change& change : changes_of(w, fixed, plan.strategy)) {
    Neighbour neighbour;
    neighbour.change = change.text;
    const std::optional<SimulatedStrategy> other = simulate_change(simulator, fixed, change, limit);
    if (!other.has_value()) {
      neighbour.fits = false;
      neighbour.missing_bytes = simulator.model().peak_bytes(change.strategy) - limit;
      if (neighbour.missing_bytes <= 0) continue;  // it fits: the search may not have it
    } else {
      neighbour.more_s = other->step_s() - plan.step_s();
      std::tie(neighbour.term, neighbour.term_s) =
          largest_growth(plan.estimate.time, other->estimate.time);
    }
    neighbours.push_back(std::move(neighbour));
  }
  return neighbours;
}

std::string why_better(const std::vector<Neighbour>& neighbours) {
  std::vector<const Neighbour*> slower, too_large;
  for (const Neighbour& n : neighbours) {
    if (!n.fits) too_large.push_back(&n);
    if (n.fits && n.more_s > 0) slower.push_back(&n);
  }
  std::stable_sort(slower.begin(), slower.end(),
                   [](const Neighbour* a, const Neighbour* b) { return a->more_s < b->more_s; });
  std::stable_sort(too_large.begin(), too_large.end(), [](const Neighbour* a, const Neighbour* b) {
    return a->missing_bytes < b->missing_bytes;
  });
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min<size_t>(2, slower.size()); ++i) {
    parts.push_back(sentence_of(*slower[i]));
  }
  if (!too_large.empty()) parts.push_back(sentence_of(*too_large.front()));
  if (parts.empty()) return "nothing that is free to change makes it slower";
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace tessera
