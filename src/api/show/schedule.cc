#include "api/show/schedule.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/show/values.h"
#include "base/error.h"
#include "base/text/text.h"
#include "compile/pipeline/weight_versions.h"
#include "cost/formulas/bubbles.h"
#include "draw/schedule_text.h"
#include "sim/schedule/timeline.h"
#include "spec/run_file/asynchronous.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ShowField::Kind;

constexpr int64_t kMostOps = 200'000;

constexpr ShowField kScheduleFields[] = {
    {"schedule", Kind::kText, "1f1b", "its name, such as gpipe, interleaved, zb-h1 or pipedream"},
    {"ranks", Kind::kWhole, "4", "pipeline ranks", 1, 64},
    {"micro_batches", Kind::kWhole, "8", "of a step; with 1 every schedule is the naive one", 1,
     512},
    {"virtual_stages", Kind::kWhole, "", "stages of a rank (default: what the schedule has)", 1,
     64},
    {"forward", Kind::kReal, "1", "time of a rank for the forward of a micro-batch", 0, 1e9},
    {"backward", Kind::kReal, "2", "time of its backward, half of it input gradients", 0, 1e9},
    {"input_grad", Kind::kReal, "", "time of its input gradients (default: half of backward)", 0,
     1e9},
    {"weight_grad", Kind::kReal, "", "time of its weight gradients (default: half of backward)", 0,
     1e9},
    {"stage_costs", Kind::kReals, "", "how many times as long each stage takes (default: 1 each)",
     0, 1e6},
    {"p2p", Kind::kReal, "0", "time until a message has arrived at another rank", 0, 1e9},
};

// A schedule with what it was asked for.
struct AskedSchedule {
  BubbleShape shape;
  bool uniform = true;  // stages take equally long, messages no time: what formulas assume
  SimulatedSchedule simulated;
};

BubbleShape bubble_shape(const ShowValues& values) {
  BubbleShape shape;
  shape.schedule = pipeline_kind(values.text("schedule"));
  const ScheduleKind& kind = schedule_kind(shape.schedule);
  shape.ranks = values.whole("ranks");
  shape.micro_batches = values.whole("micro_batches");
  shape.virtual_stages =
      values.has("virtual_stages") ? values.whole("virtual_stages") : kind.virtual_stages;
  if (!kind.any_virtual_stages && shape.virtual_stages != kind.virtual_stages) {
    values.refuse("virtual_stages", fmt::format("{} for {}; only interleaved takes others",
                                                kind.virtual_stages, name_of(shape.schedule)));
  }
  const double half = values.real("backward") / 2;
  shape.times.forward = values.real("forward");
  shape.times.input_grad = values.has("input_grad") ? values.real("input_grad") : half;
  shape.times.weight_grad = values.has("weight_grad") ? values.real("weight_grad") : half;
  require_config(shape.times.total() > 0,
                 "schedule: forward and backward are 0: give one of them a time");
  return shape;
}

void require_few_ops(const BubbleShape& shape) {
  constexpr int64_t kPassesOfASplit = 3;
  const int64_t ops = shape.ranks * shape.virtual_stages * shape.micro_batches * kPassesOfASplit;
  require_config(ops <= kMostOps,
                 "schedule: {} stages of {} micro-batches are up to {} passes, but at most {} are "
                 "shown; lower ranks, virtual_stages or micro_batches",
                 shape.ranks * shape.virtual_stages, shape.micro_batches, with_thousands(ops),
                 with_thousands(kMostOps));
}

// The stages of a rank share its time.
PassCosts pass_costs(const ShowValues& values, const BubbleShape& shape) {
  const auto v = static_cast<double>(shape.virtual_stages);
  const StageCosts stage{shape.times.forward / v, shape.times.input_grad / v,
                         shape.times.weight_grad / v};
  PassCosts costs{.forward = stage.forward,
                  .input_grad = stage.input_grad,
                  .weight_grad = stage.weight_grad,
                  .transfer = values.real("p2p")};
  const std::vector<double> factors = values.reals("stage_costs");
  if (factors.empty()) return costs;
  const int64_t stages = shape.ranks * shape.virtual_stages;
  if (static_cast<int64_t>(factors.size()) != stages) {
    values.refuse("stage_costs", fmt::format("{} numbers, one for each stage", stages));
  }
  for (const double factor : factors) {
    costs.stages.push_back(
        {stage.forward * factor, stage.input_grad * factor, stage.weight_grad * factor});
  }
  return costs;
}

AskedSchedule asked_schedule(const ShowValues& values) {
  AskedSchedule asked;
  asked.shape = bubble_shape(values);
  require_few_ops(asked.shape);
  const std::vector<double> factors = values.reals("stage_costs");
  asked.uniform = values.real("p2p") == 0 &&
                  std::all_of(factors.begin(), factors.end(), [](double one) { return one == 1; });
  const PassCosts costs = pass_costs(values, asked.shape);
  const PipelineSchedule schedule = make_schedule(
      asked.shape.schedule, static_cast<int>(asked.shape.ranks),
      static_cast<int>(asked.shape.virtual_stages), static_cast<int>(asked.shape.micro_batches));
  asked.simulated = simulate_schedule(schedule, costs);
  return asked;
}

std::optional<Bubble> formula_of(const AskedSchedule& asked) {
  return asked.uniform ? closed_form_bubble(asked.shape) : std::nullopt;
}

// The formula with the numbers in the place of its letters.
std::string with_numbers(std::string_view formula, const BubbleShape& shape) {
  std::string text;
  for (const char c : formula) {
    switch (c) {
      case 'P':
        text += fmt::format("{}", shape.ranks);
        break;
      case 'M':
        text += fmt::format("{}", shape.micro_batches);
        break;
      case 'v':
        text += fmt::format("{} *", shape.virtual_stages);
        break;
      case 'F':
        text += fmt::format("{:g}", shape.times.forward);
        break;
      case 'B':
        text += fmt::format("{:g}", shape.times.input_grad);
        break;
      case 'W':
        text += fmt::format("{:g}", shape.times.weight_grad);
        break;
      default:
        text += c;
    }
  }
  return text;
}

std::string_view title_of(PipelineKind kind) {
  switch (kind) {
    case PipelineKind::kNaive:
      return "Naive: one micro-batch at a time";
    case PipelineKind::kGPipe:
      return "GPipe: all forwards, then all backwards";
    case PipelineKind::k1F1B:
      return "1F1B: one forward, one backward";
    case PipelineKind::kInterleaved:
      return "Interleaved 1F1B: several stages on each rank";
    case PipelineKind::kZbH1:
      return "ZB-H1: weight gradients fill the bubble, in the memory of 1F1B";
    case PipelineKind::kZbH2:
      return "ZB-H2: hardly a bubble, for up to twice the activations";
    case PipelineKind::kZbV:
      return "ZB-V: two stages on each rank, down and back again";
    case PipelineKind::kDualPipeV:
      return "DualPipe-V: the forwards of one direction beside the backwards of the other";
    case PipelineKind::kPipedream:
      return "PipeDream: an update after every micro-batch";
    case PipelineKind::kPipedream2bw:
      return "PipeDream-2BW: an update after every group, two copies of the weights";
  }
  return "";
}

Json known_schedules() {
  Json known = Json::array();
  for (const ScheduleKind& kind : schedule_kinds()) {
    const PipelineSchedule one = make_schedule(kind.kind, 2, 0, 4);
    const auto splits = [](const StageAction& a) { return a.pass == StagePass::kWeightGrad; };
    known.push_back(
        {{"name", name_of(kind.kind)},
         {"title", title_of(kind.kind)},
         {"splits_backward", std::any_of(one.actions[0].begin(), one.actions[0].end(), splits)},
         {"synchronous", !kind.asynchronous},
         {"virtual_stages", kind.any_virtual_stages ? 0 : kind.virtual_stages}});
  }
  return known;
}

// Rank after rank, each in its order.
Json ops_json(const SimulatedSchedule& simulated) {
  Json ops = Json::array();
  for (size_t rank = 0; rank < simulated.timeline.ranks.size(); ++rank) {
    for (const TimedAction& timed : simulated.timeline.ranks[rank]) {
      const auto& [pass, stage, micro_batch] = timed.action;
      ops.push_back({rank, stage, micro_batch, static_cast<int>(pass), timed.begin, timed.end});
    }
  }
  return ops;
}

// Where an action and its stage's products stand among the operations.
class OpIndex {
 public:
  explicit OpIndex(const SimulatedSchedule& simulated)
      : micro_batches_(static_cast<size_t>(simulated.schedule.micro_batches)),
        made_by_(2 * static_cast<size_t>(simulated.schedule.stages) * micro_batches_, 0) {
    size_t op = 0;
    for (const std::vector<TimedAction>& rank : simulated.timeline.ranks) {
      for (const TimedAction& timed : rank) {
        const auto& [pass, stage, micro_batch] = timed.action;
        const auto kind = pass == StagePass::kForward ? StageProduct::Kind::kOutput
                                                      : StageProduct::Kind::kInputGradient;
        if (pass != StagePass::kWeightGrad) made_by_[slot({kind, stage, micro_batch})] = op;
        ++op;
      }
    }
  }
  [[nodiscard]] size_t maker_of(const StageProduct& product) const {
    return made_by_[slot(product)];
  }

 private:
  [[nodiscard]] size_t slot(const StageProduct& product) const {
    const size_t row = 2 * static_cast<size_t>(product.stage) +
                       (product.kind == StageProduct::Kind::kOutput ? 0 : 1);
    return row * micro_batches_ + static_cast<size_t>(product.micro_batch);
  }
  size_t micro_batches_;
  std::vector<size_t> made_by_;
};

// The messages between ranks: which operation waits for which.
Json needs_json(const SimulatedSchedule& simulated) {
  const PipelineSchedule& schedule = simulated.schedule;
  const OpIndex index(simulated);
  Json pairs = Json::array();
  size_t op = 0;
  for (size_t rank = 0; rank < simulated.timeline.ranks.size(); ++rank) {
    for (const TimedAction& timed : simulated.timeline.ranks[rank]) {
      for (const StageProduct& product : needs(timed.action, schedule.stages)) {
        const int from = schedule.rank_of_stage[static_cast<size_t>(product.stage)];
        if (from != static_cast<int>(rank)) pairs.push_back({op, index.maker_of(product)});
      }
      ++op;
    }
  }
  return pairs;
}

// Micro-batches of a stage that a rank keeps, whenever their number changes: from the begin of a
// forward to the end of what uses its activations last.
Json live_json(const std::vector<TimedAction>& actions) {
  Json changes = Json::array({{0.0, 0}});
  int live = 0;
  const auto change = [&](double time, int by) {
    live += by;
    if (changes.back()[0] == time) {
      changes.back()[1] = live;
    } else {
      changes.push_back({time, live});
    }
  };
  for (const TimedAction& timed : actions) {
    const StagePass pass = timed.action.pass;
    if (pass == StagePass::kForward) change(timed.begin, 1);
    if (pass == StagePass::kBackward || pass == StagePass::kWeightGrad) change(timed.end, -1);
  }
  return changes;
}

std::vector<StageVersions> versions_of(const AskedSchedule& asked) {
  const PipelineKind kind = asked.shape.schedule;
  const PipelineSchedule& schedule = asked.simulated.schedule;
  const int64_t group = micro_batches_per_update(kind, schedule.micro_batches, schedule.stages);
  return plan_versions(
      schedule, static_cast<int>(group),
      kind == PipelineKind::kPipedream2bw ? VersionRule::kOneBehind : VersionRule::kNewest);
}

// By stage and micro-batch: the version of the weights that it reads, and the one that its gradient
// is part of.
Json versions_json(const std::vector<StageVersions>& versions) {
  Json stages = Json::array();
  for (const StageVersions& stage : versions) {
    Json pairs = Json::array();
    for (size_t i = 0; i < stage.version_of.size(); ++i) {
      pairs.push_back({stage.version_of[i], stage.update_of[i]});
    }
    stages.push_back(std::move(pairs));
  }
  return stages;
}

Json rank_rows_json(const AskedSchedule& asked, const std::vector<StageVersions>& versions) {
  const auto& [schedule, timeline, facts] = asked.simulated;
  Json rows = Json::array();
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const RankFacts& of_rank = facts.ranks[static_cast<size_t>(rank)];
    const std::vector<int> stages = stages_of_rank(schedule, rank);
    int most_versions = 1;
    for (const int stage : stages) {
      most_versions = std::max(most_versions, versions[static_cast<size_t>(stage)].slots);
    }
    rows.push_back({{"rank", rank},
                    {"stages", stages},
                    {"busy", of_rank.busy},
                    {"idle", facts.makespan - of_rank.busy},
                    {"peak_live", of_rank.peak_live},
                    {"live", live_json(timeline.ranks[static_cast<size_t>(rank)])},
                    {"weight_versions", most_versions}});
  }
  return rows;
}

Json schedule_answer(const ShowValues& values, const Surroundings&) {
  const AskedSchedule asked = asked_schedule(values);
  const auto& [schedule, timeline, facts] = asked.simulated;
  Json json = {{"schedule", schedule.name},
               {"title", schedule_title(schedule)},
               {"ranks", schedule.ranks},
               {"stages", schedule.stages},
               {"micro_batches", schedule.micro_batches},
               {"makespan", facts.makespan},
               {"bubble", facts.bubble}};
  if (const std::optional<Bubble> bubble = formula_of(asked)) {
    json["bubble_formula"] = {{"value", bubble->share},
                              {"formula", bubble->formula},
                              {"numbers", with_numbers(bubble->formula, asked.shape)}};
  }
  json["ops"] = ops_json(asked.simulated);
  json["needs"] = needs_json(asked.simulated);
  const std::vector<StageVersions> versions = versions_of(asked);
  json["rank_rows"] = rank_rows_json(asked, versions);
  if (schedule.asynchronous) json["versions"] = versions_json(versions);
  json["known"] = known_schedules();
  return json;
}

std::string schedule_answer_text(const ShowValues& values, const Surroundings&) {
  const AskedSchedule asked = asked_schedule(values);
  std::string text = schedule_title(asked.simulated.schedule) + "\n\n";
  text += schedule_text(asked.simulated) + "\n" + schedule_table(asked.simulated) + "\n";
  text += fmt::format("{} of the time of all ranks\n", bubble_text(asked.simulated.facts));
  if (const std::optional<Bubble> bubble = formula_of(asked)) {
    text += fmt::format("formula: {} = {} = {:.1f} %\n", bubble->formula,
                        with_numbers(bubble->formula, asked.shape), 100 * bubble->share);
  }
  if (asked.simulated.schedule.asynchronous) {
    text += "copies of the weights, by stage:";
    for (const StageVersions& stage : versions_of(asked)) text += fmt::format(" {}", stage.slots);
    text += "\n";
  }
  return text;
}

}  // namespace

ShowTopic schedule_topic() {
  return {"schedule",
          "What every rank of a pipeline does, and when.",
          "--schedule 1f1b --ranks 4 --micro-batches 8",
          kScheduleFields,
          schedule_answer,
          for_terminals(schedule_answer_text)};
}

}  // namespace tessera
