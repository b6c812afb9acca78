#include "sim/schedule/schedule_simulator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "base/error.h"
#include "compile/pipeline/schedule/replay.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

struct Shape {
  std::string name;
  int ranks, virtual_stages, micro_batches;
};

class Draw {
 public:
  explicit Draw(uint32_t seed) : engine_(seed) {}
  int whole(int least, int most) {
    return least + static_cast<int>(engine_() % static_cast<uint32_t>(most - least + 1));
  }
  double real(double least, double most) {
    return least + (most - least) * (static_cast<double>(engine_()) / 4294967296.0);
  }

  // One that the schedule accepts.
  Shape shape() {
    const std::vector<std::string> names = {"naive", "gpipe", "1f1b",       "interleaved", "zb-h1",
                                            "zb-h2", "zb-v",  "dualpipe-v", "pipedream"};
    Shape shape{names[static_cast<size_t>(whole(0, static_cast<int>(names.size()) - 1))],
                whole(1, 9), 0, whole(1, 30)};
    if (shape.name == "interleaved") {
      shape.virtual_stages = whole(1, 4);
      shape.micro_batches = shape.ranks * whole(1, 4);
    }
    if (shape.name == "dualpipe-v") shape.micro_batches += 2 * shape.ranks;
    return shape;
  }

  PipelineTimes times(int stages, bool free_messages) {
    PipelineTimes times;
    for (int stage = 0; stage < stages; ++stage) {
      times.stages.push_back({real(0.1, 2), real(0.1, 2), real(0, 2)});
      if (stage == 0 || free_messages) continue;
      const bool slow = whole(0, 3) == 0;  // slower than the stages beside it
      times.messages.push_back({real(0, 1), slow ? real(1, 4) : real(0, 0.1)});
    }
    return times;
  }

 private:
  std::mt19937 engine_;
};

PipelineSchedule schedule_of(const Shape& shape) {
  return make_schedule(shape.name, shape.ranks, shape.virtual_stages, shape.micro_batches);
}

std::string text_of(const Shape& shape) {
  return fmt::format("{} ranks {} virtual {} micro-batches {}", shape.name, shape.ranks,
                     shape.virtual_stages, shape.micro_batches);
}

PipelineOutcome simulate(const Shape& shape, const StageTimes& stage,
                         const MessageTimes& message = {}) {
  const ScheduleTape tape(schedule_of(shape));
  ScheduleSimulator simulator;
  return simulator.run(tape, uniform_times(tape.stages(), stage, message));
}

// The simplest simulation there is: begin times by going over all ranks until nothing moves. Links
// are taken in the order of the sender's list.
double makespan_by_rounds(const PipelineSchedule& schedule, const PipelineTimes& times) {
  const auto at = [](int value) { return static_cast<size_t>(value); };
  std::vector<std::vector<double>> outputs(at(schedule.stages)), gradients(at(schedule.stages));
  for (auto* made : {&outputs, &gradients}) {
    for (auto& of_stage : *made) of_stage.assign(at(schedule.micro_batches), -1);
  }
  std::vector<size_t> next(at(schedule.ranks), 0);
  std::vector<double> clock(at(schedule.ranks), 0);
  std::map<std::pair<int, int>, double> link;
  const auto rank_of = [&](int stage) { return schedule.rank_of_stage[at(stage)]; };
  bool moved = true;
  while (std::exchange(moved, false)) {
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      while (next[at(rank)] < schedule.actions[at(rank)].size()) {
        const auto& [pass, stage, m] = schedule.actions[at(rank)][next[at(rank)]];
        const bool forward = pass == StagePass::kForward, last = pass == StagePass::kWeightGrad;
        auto& made = forward ? outputs : gradients;
        const int from = last ? -1 : forward ? stage - 1 : stage + 1;
        const int to = last ? -1 : forward ? stage + 1 : stage - 1;
        double ready = 0;
        if (from >= 0 && from < schedule.stages) ready = made[at(from)][at(m)];
        if (ready < 0) break;
        const StageTimes& of = times.stages[at(stage)];
        const double cost = forward                        ? of.forward
                            : last                         ? of.weight_grad
                            : pass == StagePass::kBackward ? of.input_grad + of.weight_grad
                                                           : of.input_grad;
        const double end = std::max(clock[at(rank)], ready) + cost;
        clock[at(rank)] = end;
        if (!last) made[at(stage)][at(m)] = end;
        if (to >= 0 && to < schedule.stages && rank_of(to) != rank && !times.messages.empty()) {
          const MessageTimes& message = times.messages[at(std::min(stage, to))];
          double& busy = link[{rank, rank_of(to)}];
          busy = std::max(busy, end) + message.transfer;
          made[at(stage)][at(m)] = busy + message.latency;
        }
        ++next[at(rank)];
        moved = true;
      }
    }
  }
  return *std::max_element(clock.begin(), clock.end());
}

TEST(ScheduleSimulatorTest, GivesTheFormulasWhenTimesAreEqualAndMessagesFree) {
  const StageTimes unit{3, 4, 2};
  const double all = 3 + 4 + 2;
  for (const int p : {1, 2, 4, 8, 64}) {
    for (const int m : {64, 128, 512}) {
      EXPECT_EQ(simulate({"gpipe", p, 0, m}, unit).makespan, (m + p - 1) * all);
      EXPECT_EQ(simulate({"1f1b", p, 0, m}, unit).makespan, (m + p - 1) * all);
      EXPECT_EQ(simulate({"naive", p, 0, m}, unit).makespan, m * p * all);
      // Stages of half the time each.
      EXPECT_EQ(simulate({"interleaved", p, 2, m}, {1.5, 2, 1}).makespan,
                m * all + (p - 1) * all / 2);
      // (p - 1)(F + B - W) of idle time.
      EXPECT_EQ(simulate({"zb-h1", p, 0, m}, {1, 1, 1}).makespan, 3 * m + (p - 1));
      // No rank is idle between its first and its last action.
      EXPECT_EQ(simulate({"zb-h2", p, 0, 2 * m}, {1, 1, 1}).longest_span, 6 * m);
      EXPECT_EQ(simulate({"zb-v", p, 0, 2 * m}, {1, 1, 1}).longest_span, 12 * m);
    }
  }
  EXPECT_EQ(simulate({"1f1b", 4, 0, 8}, unit).bubble, 3.0 / 11);
}

TEST(ScheduleSimulatorTest, AgreesWithTheDryRunOfTheCompiler) {
  Draw draw(1);
  ScheduleSimulator simulator;
  for (int i = 0; i < 300; ++i) {
    const Shape shape = draw.shape();
    const PipelineSchedule schedule = schedule_of(shape);
    PassCosts costs{.forward = draw.real(0.1, 2),
                    .input_grad = draw.real(0.1, 2),
                    .weight_grad = draw.real(0.1, 2),
                    .transfer = draw.real(0, 0.1)};
    const PipelineTimes times =
        uniform_times(schedule.stages, {costs.forward, costs.input_grad, costs.weight_grad},
                      {.latency = costs.transfer});
    const ScheduleTimeline timeline = replay(schedule, costs);
    const ScheduleFacts facts = facts_of(timeline);
    const ScheduleTape tape(schedule);
    std::vector<RankOutcome> ranks;
    const PipelineOutcome outcome = simulator.run(tape, times, &ranks);
    EXPECT_EQ(outcome.makespan, timeline.makespan) << text_of(shape);
    EXPECT_NEAR(outcome.bubble, facts.bubble, 1e-12) << text_of(shape);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      EXPECT_EQ(ranks[rank].begin, timeline.ranks[rank].front().begin) << text_of(shape);
      EXPECT_EQ(ranks[rank].end, timeline.ranks[rank].back().end) << text_of(shape);
      EXPECT_NEAR(ranks[rank].busy, facts.ranks[rank].busy, 1e-9) << text_of(shape);
      EXPECT_EQ(tape.peak_live()[rank], facts.ranks[rank].peak_live) << text_of(shape);
    }
  }
}

TEST(ScheduleSimulatorTest, UnevenStagesAndBusyLinksAgreeWithTheSimplestSimulation) {
  Draw draw(2);
  ScheduleSimulator simulator;
  for (int i = 0; i < 300; ++i) {
    const Shape shape = draw.shape();
    const PipelineSchedule schedule = schedule_of(shape);
    const PipelineTimes times = draw.times(schedule.stages, i % 3 == 0);
    const ScheduleTape tape(schedule);
    EXPECT_DOUBLE_EQ(simulator.run(tape, times).makespan, makespan_by_rounds(schedule, times))
        << text_of(shape);
  }
}

TEST(ScheduleSimulatorTest, IsNeverFasterThanItsWorkOrTheWayOfOneMicroBatch) {
  Draw draw(3);
  ScheduleSimulator simulator;
  for (int i = 0; i < 500; ++i) {
    const Shape shape = draw.shape();
    const PipelineSchedule schedule = schedule_of(shape);
    const PipelineTimes times = draw.times(schedule.stages, false);
    double way = 0;  // down and back
    for (size_t stage = 0; stage < times.stages.size(); ++stage) {
      way += times.stages[stage].forward + times.stages[stage].input_grad;
      if (stage == 0 || schedule.rank_of_stage[stage] == schedule.rank_of_stage[stage - 1])
        continue;
      way += 2 * (times.messages[stage - 1].latency + times.messages[stage - 1].transfer);
    }
    const PipelineOutcome outcome = simulator.run(ScheduleTape(schedule), times);
    EXPECT_GE(outcome.makespan * (1 + 1e-12), way) << text_of(shape);
    EXPECT_GE(outcome.makespan * (1 + 1e-12), outcome.busiest) << text_of(shape);
    EXPECT_GE(outcome.makespan, outcome.longest_span) << text_of(shape);
    EXPECT_GE(outcome.bubble, 0) << text_of(shape);
    EXPECT_LT(outcome.bubble, 1) << text_of(shape);
  }
}

TEST(ScheduleSimulatorTest, SlowerStagesAndLinksNeverMakeItFaster) {
  Draw draw(4);
  ScheduleSimulator simulator;
  for (int i = 0; i < 300; ++i) {
    const Shape shape = draw.shape();
    const ScheduleTape tape(schedule_of(shape));
    PipelineTimes times = draw.times(tape.stages(), false);
    const double before = simulator.run(tape, times).makespan;
    StageTimes& slower = times.stages[static_cast<size_t>(draw.whole(0, tape.stages() - 1))];
    slower.forward *= 1.3;
    slower.input_grad *= 1.3;
    if (!times.messages.empty()) times.messages.front().transfer *= 2;
    EXPECT_GE(simulator.run(tape, times).makespan, before) << text_of(shape);
  }
}

TEST(ScheduleSimulatorTest, ManyGiveTheNumbersOfOneByOne) {
  Draw draw(5);
  ScheduleSimulator simulator;
  for (int i = 0; i < 60; ++i) {
    const ScheduleTape tape(schedule_of(draw.shape()));
    std::vector<PipelineTimes> times;
    // Some of eight have busy links, others do not.
    for (int k = 0; k < 19; ++k) times.push_back(draw.times(tape.stages(), k % 2 == 0));
    std::vector<PipelineOutcome> outcomes(times.size());
    simulator.run_many(tape, times, outcomes);
    for (size_t k = 0; k < times.size(); ++k) {
      const PipelineOutcome one = simulator.run(tape, times[k]);
      EXPECT_EQ(outcomes[k].makespan, one.makespan);
      EXPECT_EQ(outcomes[k].longest_span, one.longest_span);
      EXPECT_EQ(outcomes[k].work, one.work);
    }
  }
}

TEST(ScheduleSimulatorTest, RefusesTimesThatDoNotFit) {
  const ScheduleTape tape(make_schedule("1f1b", 2, 0, 2));
  ScheduleSimulator simulator;
  EXPECT_THROW(simulator.run(tape, uniform_times(3, {})), InternalError);
  EXPECT_THROW(simulator.run(tape, uniform_times(2, {.forward = -1})), InternalError);
}

// Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241): profiled times in milliseconds,
// and the bubble rates of table 5. Of the rates 17 were compared with a transcription of the table
// (1F1B, 1F1B-I, and ZB-1p where it has ZB-H1's); the times could not be compared with the paper's
// text, but four of them give three rates to the fourth digit in every row, which others would not.
// A rank there goes on to the next step without waiting. Interleaved with one layer per stage.
struct PublishedBubble {
  const char* model;
  int ranks, micro_batches, chunks;
  double forward, input_grad, weight_grad, message;
  double one_f_one_b, interleaved, zb_h1, zb_h2;
};
constexpr PublishedBubble kTable5[] = {
    {"1.5B", 8, 24, 3, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1055, 0.1585, 0.1083},
    {"1.5B", 8, 32, 3, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.0818, 0.1242, 0.0837},
    {"1.5B", 8, 64, 3, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0443, 0.0674, 0.0444},
    {"6.2B", 8, 24, 4, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.0808, 0.1323, 0.0698},
    {"6.2B", 8, 32, 4, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.0628, 0.1045, 0.0559},
    {"6.2B", 8, 64, 4, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0320, 0.0554, 0.0294},
    {"14.6B", 16, 48, 3, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1104, 0.1397, 0.0672},
    {"14.6B", 16, 64, 3, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.0852, 0.1088, 0.0516},
    {"14.6B", 16, 128, 3, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0445, 0.0576, 0.0266},
    {"28.3B", 32, 96, 2, 10.419, 10.207, 7.715, 0.408, 0.2646, 0.1493, 0.1421, 0.0641},
    {"28.3B", 32, 128, 2, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1164, 0.1106, 0.0490},
    {"28.3B", 32, 256, 2, 10.402, 10.248, 7.698, 0.460, 0.1352, 0.0624, 0.0594, 0.0257},
};

double published_bubble(const std::string& name, const PublishedBubble& row, int chunks) {
  return simulate({name, row.ranks, chunks == 1 ? 0 : chunks, row.micro_batches},
                  {row.forward / chunks, row.input_grad / chunks, row.weight_grad / chunks},
                  {.latency = row.message})
      .span_bubble;
}

TEST(ScheduleSimulatorTest, BubblesAreThoseOfTheZeroBubblePaper) {
  for (const PublishedBubble& row : kTable5) {
    const std::string what = fmt::format("{} m {}", row.model, row.micro_batches);
    // To the last digit that is printed.
    EXPECT_NEAR(published_bubble("1f1b", row, 1), row.one_f_one_b, 1e-4) << what;
    EXPECT_NEAR(published_bubble("zb-h1", row, 1), row.zb_h1, 1e-4) << what;
    EXPECT_NEAR(published_bubble("zb-h2", row, 1), row.zb_h2, 1e-4) << what;
    EXPECT_NEAR(published_bubble("interleaved", row, row.chunks), row.interleaved, 0.01) << what;
  }
}

// Table 8 of the same paper: longer pipelines and ZB-V, without the times behind it. Here the times
// of each model, in units of its forward, are the least-squares fit of three numbers to the twelve
// rates of its rows; the column of 1F1B-I (two chunks) was left out of the fit.
struct FittedBubble {
  const char* model;
  int ranks;
  double input_grad, weight_grad, message;
  struct Row {
    int micro_batches;
    double one_f_one_b, interleaved, zb_h1, zb_h2, zb_v;
  } rows[3];
};
constexpr FittedBubble kTable8[] = {
    {"6.2B",
     16,
     0.7992,
     0.6056,
     0.0502,
     {{48, 0.2668, 0.1499, 0.1536, 0.0823, 0.0697},
      {64, 0.2206, 0.1169, 0.1198, 0.0630, 0.0533},
      {128, 0.1390, 0.0621, 0.0637, 0.0325, 0.0274}}},
    {"14.6B",
     24,
     1.0539,
     0.7855,
     0.0568,
     {{72, 0.2699, 0.1519, 0.1439, 0.0628, 0.0638},
      {96, 0.2229, 0.1184, 0.1121, 0.0480, 0.0483},
      {192, 0.1403, 0.0630, 0.0595, 0.0247, 0.0250}}},
    {"28.3B",
     32,
     1.0496,
     0.7780,
     0.0474,
     {{96, 0.2676, 0.1509, 0.1429, 0.0629, 0.0593},
      {128, 0.2204, 0.1177, 0.1111, 0.0478, 0.0451},
      {256, 0.1362, 0.0626, 0.0593, 0.0251, 0.0236}}},
};

TEST(ScheduleSimulatorTest, BubblesOfLongPipelinesAreThoseOfTheZeroBubblePaper) {
  for (const FittedBubble& model : kTable8) {
    for (const FittedBubble::Row& row : model.rows) {
      const std::string what = fmt::format("{} m {}", model.model, row.micro_batches);
      const auto bubble = [&](const std::string& name, int chunks) {
        return simulate({name, model.ranks, name == "interleaved" ? chunks : 0, row.micro_batches},
                        {1.0 / chunks, model.input_grad / chunks, model.weight_grad / chunks},
                        {.latency = model.message})
            .span_bubble;
      };
      EXPECT_NEAR(bubble("1f1b", 1), row.one_f_one_b, 0.001) << what;
      EXPECT_NEAR(bubble("zb-h1", 1), row.zb_h1, 0.001) << what;
      EXPECT_NEAR(bubble("zb-h2", 1), row.zb_h2, 0.001) << what;
      EXPECT_NEAR(bubble("zb-v", 2), row.zb_v, 0.001) << what;
      EXPECT_NEAR(bubble("interleaved", 2), row.interleaved, 0.01) << what;
    }
  }
}

}  // namespace
}  // namespace tessera
