#include "sim/schedule/program_tape.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace tessera {
namespace {

const std::vector<std::string> kNames = {"naive", "gpipe", "1f1b", "interleaved",
                                         "zb-h1", "zb-h2", "zb-v", "dualpipe-v"};

PipelineSchedule schedule_of(const std::string& name, int ranks) {
  return make_schedule(name, ranks, name == "interleaved" ? 2 : 0, 4 * ranks);
}

PipelineTimes random_times(int stages, uint32_t seed) {
  std::mt19937 engine(seed);
  const auto real = [&](double least, double most) {
    return least + (most - least) * (static_cast<double>(engine()) / 4294967296.0);
  };
  PipelineTimes times;
  for (int stage = 0; stage < stages; ++stage) {
    times.stages.push_back({real(0.5, 2), real(0.5, 2), real(0.5, 2)});
    if (stage > 0) times.messages.push_back({real(0, 0.1), engine() % 3 == 0 ? real(1, 3) : 0.01});
  }
  return times;
}

TEST(ProgramTapeTest, MessagesThatTakeNoTimeCostNothing) {
  for (const std::string& name : kNames) {
    for (const int ranks : {2, 3, 4, 8}) {
      const PipelineSchedule schedule = schedule_of(name, ranks);
      const PipelineTimes times = uniform_times(schedule.stages, {1, 1, 1});
      ScheduleSimulator simulator;
      const PipelineOutcome expected = simulator.run(ScheduleTape(schedule), times);
      const PipelineOutcome outcome = ProgramTape(schedule).run(times);
      EXPECT_NEAR(outcome.makespan, expected.makespan, 1e-9) << name << " " << ranks;
      EXPECT_NEAR(outcome.work, expected.work, 1e-9) << name << " " << ranks;
    }
  }
}

// A rank has one message at a time, whatever its direction and whomever it talks to.
TEST(ProgramTapeTest, NoRankEndsBeforeItsMessagesHavePassedOneByOne) {
  for (const std::string& name : kNames) {
    for (uint32_t seed = 0; seed < 5; ++seed) {
      const PipelineSchedule schedule = schedule_of(name, 4);
      const PipelineTimes times = random_times(schedule.stages, seed);
      const ProgramTape tape(schedule);
      std::map<uint32_t, double> on_wire;  // by rank
      for (const ProgramTape::Step& step : tape.steps()) {
        if (!step.is_message) continue;
        const MessageTimes& message = times.messages[step.cost];
        on_wire[step.rank] += message.latency + message.transfer;
        on_wire[step.receiver] += message.latency + message.transfer;
      }
      const PipelineOutcome outcome = tape.run(times);
      for (const auto& [rank, busy] : on_wire) {
        EXPECT_GE(outcome.makespan, busy - 1e-9) << name << " rank " << rank;
      }
      ScheduleSimulator simulator;
      EXPECT_GE(outcome.makespan, simulator.run(ScheduleTape(schedule), times).makespan - 1e-9)
          << name << ": in one order is never faster than as soon as a link is free";
    }
  }
}

// Two ranks, 1f1b, messages as long as the actions: nothing runs beside them. Counted by hand: the
// last stage takes 3 for a micro-batch, and the two messages of each stand before and after it.
TEST(ProgramTapeTest, ASlowLinkStandsInTheWayOfBothDirections) {
  const PipelineSchedule schedule = make_schedule("1f1b", 2, 0, 16);
  PipelineTimes times = uniform_times(2, {1, 1, 1}, {.latency = 0, .transfer = 1});
  const double in_order = ProgramTape(schedule).run(times).makespan;
  ScheduleSimulator simulator;
  const double at_will = simulator.run(ScheduleTape(schedule), times).makespan;
  EXPECT_GE(in_order, 16 * (3 + 2));
  EXPECT_LT(at_will, in_order);
  times.messages[0].transfer = 0;
  EXPECT_LT(ProgramTape(schedule).run(times).makespan, 16 * 3 + 4);
}

TEST(ProgramTapeTest, EveryMessageIsThereOnce) {
  for (const std::string& name : kNames) {
    const PipelineSchedule schedule = schedule_of(name, 4);
    int expected = 0;
    for (int stage = 0; stage + 1 < schedule.stages; ++stage) {
      const auto rank = [&](int of) { return schedule.rank_of_stage[static_cast<size_t>(of)]; };
      if (rank(stage) != rank(stage + 1)) expected += 2 * schedule.micro_batches;
    }
    const ProgramTape tape(schedule);
    EXPECT_EQ(std::count_if(tape.steps().begin(), tape.steps().end(),
                            [](const ProgramTape::Step& step) { return step.is_message; }),
              expected)
        << name;
  }
}

}  // namespace
}  // namespace tessera
