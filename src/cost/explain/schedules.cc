// Time that pipeline stages wait, and micro-batches.
#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "compile/pipeline/schedule/replay.h"
#include "cost/explain/calculators.h"
#include "cost/formulas/bubbles.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

using enum Unit;
using Kind = Parameter::Kind;

// Stages times micro-batches that are played through; larger ones have their formula only.
constexpr int64_t kMostCells = 1 << 18;

constexpr Parameter kBubbleParameters[] = {
    {"schedule", "", kNumber, "1f1b",
     "naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, dualpipe-v", Kind::kText},
    {"ranks", "P", kCount, "4", "pipeline ranks", Kind::kWhole},
    {"micro-batches", "M", kCount, "8", "of a step", Kind::kWhole},
    {"virtual-stages", "v", kCount, "", "stages of a rank, for interleaved (2)", Kind::kWhole},
    {"forward", "F", kNumber, "1", "time of a stage's forward pass"},
    {"input-grad", "B", kNumber, "1", "time of its input gradients"},
    {"weight-grad", "W", kNumber, "1", "time of its weight gradients"},
    {"below", "x", kShare, "10%", "the bubble that is wanted"},
};

constexpr std::string_view kShown[] = {"naive", "gpipe", "1f1b", "interleaved",
                                       "zb-h1", "zb-h2", "zb-v", "dualpipe-v"};

BubbleShape shape_of(const Values& v) {
  BubbleShape shape;
  const std::string name = v.text("schedule");
  const bool known = std::find(std::begin(kShown), std::end(kShown), name) != std::end(kShown);
  require_config(known, "--schedule is {}: {}", in_quotes(name),
                 suggestion(name, kShown, "schedules"));
  shape.schedule = pipeline_kind(name);
  shape.ranks = v.whole("ranks");
  shape.micro_batches = v.whole("micro-batches");
  const ScheduleKind& kind = schedule_kind(shape.schedule);
  shape.virtual_stages = v.has("virtual-stages") ? v.whole("virtual-stages") : kind.virtual_stages;
  require_config(kind.any_virtual_stages || shape.virtual_stages == kind.virtual_stages,
                 "--virtual-stages is {}: {} has {}; only interleaved takes others",
                 shape.virtual_stages, name, kind.virtual_stages);
  shape.times = {v["forward"], v["input-grad"], v["weight-grad"]};
  return shape;
}

bool can_play(const BubbleShape& shape) {
  return shape.ranks <= kMostCells && shape.micro_batches <= kMostCells &&
         shape.virtual_stages <= kMostCells &&
         shape.ranks * shape.virtual_stages <= kMostCells / shape.micro_batches;
}

void add_played(const BubbleShape& shape, Explanation& e) {
  const ScheduleFacts facts = play(shape);
  e.add("simulated", "bubble, played through", "idle / (ranks * makespan)", "",
        {facts.bubble, kShare});
  e.add("makespan", "makespan", "", "", {facts.makespan, kNumber});
  e.add("in_flight", "micro-batches of a stage in flight, worst rank", "", "",
        {static_cast<double>(facts.peak_live), kCount});
  constexpr size_t kMostRows = 64;
  if (facts.ranks.size() > kMostRows) return;
  ResultTable table{"ranks", "By pipeline rank", {"rank", "busy", "idle", "in flight"}, {}};
  for (size_t rank = 0; rank < facts.ranks.size(); ++rank) {
    const RankFacts& r = facts.ranks[rank];
    table.rows.push_back({Quantity{static_cast<double>(rank), kCount}, Quantity{r.busy, kNumber},
                          Quantity{facts.makespan - r.busy, kNumber},
                          Quantity{static_cast<double>(r.peak_live), kCount}});
  }
  e.tables.push_back(std::move(table));
}

void explain_bubble(const Values& v, Explanation& e) {
  const BubbleShape shape = shape_of(v);
  const auto p = static_cast<double>(shape.ranks), m = static_cast<double>(shape.micro_batches);
  const std::optional<Bubble> bubble = closed_form_bubble(shape);
  if (bubble) {
    // The default number of virtual stages is no value that was put in.
    const std::string numbers =
        shape.schedule == PipelineKind::kInterleaved
            ? fmt::format("({0:g}-1) / ({1} * {2:g} + {0:g}-1)", p, shape.virtual_stages, m)
            : "";
    e.add("bubble", "bubble, by its formula", bubble->formula, numbers, {bubble->share, kShare});
    e.add("utilization", "busy", "1 - bubble", "", {1 - bubble->share, kShare});
  }
  if (can_play(shape)) {
    add_played(shape, e);
  } else {
    require_config(bubble.has_value(),
                   "{} with {} ranks and {} micro-batches has no formula, and is too large to play "
                   "through; use at most {} stages times micro-batches",
                   name_of(shape.schedule), shape.ranks, shape.micro_batches, kMostCells);
    e.notes.push_back("Too large to play through; the formula alone.");
  }
  e.add("over_ideal", "1F1B: waiting over working time", "(P-1) / M", "", {(p - 1) / m, kShare});
  e.add("one_at_a_time", "with one micro-batch after the other", "(P-1) / P", "",
        {(p - 1) / p, kShare});
  e.add("fewest", "1F1B: fewest micro-batches for less than x", "least M > (P-1)(1-x)/x",
        fmt::format("least M > {:g} * {:g} / {:g}", p - 1, 1 - v["below"], v["below"]),
        {fewest_micro_batches(p, v["below"]), kCount});
  e.add("gpipe_over_1f1b", "GPipe keeps so many times the activations of 1F1B", "M / min(M, P)", "",
        {m / static_cast<double>(one_f_one_b_in_flight(shape.ranks, shape.micro_batches, 0)),
         kNumber});
  e.notes.push_back(
      "Stages that take equally long, messages that take no time. F, B and W are of all stages of "
      "a rank together.");
}

// ---- accumulate ----

constexpr Parameter kAccumulateParameters[] = {
    {"ranks", "N", kCount, "8", "data-parallel ranks", Kind::kWhole},
    {"micro-batch", "b", kCount, "4", "sequences of a rank at one time", Kind::kWhole},
    {"steps", "K", kCount, "8", "micro-batches between updates", Kind::kWhole},
    {"seq", "s", kLength, "2048", "tokens of a sequence", Kind::kWhole},
    {"global-batch", "G", kCount, "256", "a batch to share out", Kind::kWhole},
};

void explain_accumulate(const Values& v, Explanation& e) {
  const double n = v["ranks"], b = v["micro-batch"], k = v["steps"];
  e.add("batch", "sequences of an update", "N b K", fmt::format("{:g} * {:g} * {:g}", n, b, k),
        {n * b * k, kNumber});
  e.add("tokens", "tokens of an update", "N b K s", "", {n * b * k * v["seq"], kNumber});
  e.add("memory", "activations of so many sequences at one time", "b", "", {b, kNumber});
  e.add("all_reduces", "all-reduces of an update", "1 instead of K", "", {1, kNumber});
  e.add("per_rank", "sequences of a rank, of a batch of G", "G / N",
        fmt::format("{:g} / {:g}", v["global-batch"], n), {v["global-batch"] / n, kNumber});
  e.add("needed_steps", "micro-batches that a batch of G needs", "G / (N b)", "",
        {v["global-batch"] / (n * b), kNumber});
  e.notes = {"The same update as with one large batch; the memory of activations does not grow."};
}

}  // namespace

Topic bubble_topic() {
  return {"bubble", "Time that pipeline stages wait.",
          "--schedule 1f1b --ranks 4 --micro-batches 8", kBubbleParameters, explain_bubble};
}

Topic accumulate_topic() {
  return {"accumulate", "Gradient accumulation: large batches in little memory.",
          "--ranks 8 --micro-batch 4 --steps 8", kAccumulateParameters, explain_accumulate};
}

}  // namespace tessera
