// Transfers that meet on a link, and kernels beside them, of Programs written by hand: the times
// are exact.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "sim/replay/step_replay.h"

namespace tessera {
namespace {

// Times by the name of an instruction.
class NamedTimes : public Times {
 public:
  std::map<std::string, double> kernels;
  std::map<std::string, TransferTime> transfers;

  [[nodiscard]] double kernel_s(const Program&, const Instruction& instruction) const override {
    return kernels.at(instruction.name);
  }
  [[nodiscard]] TransferTime transfer(const Program&, const Instruction& instruction,
                                      const std::vector<int>&) const override {
    return transfers.at(instruction.name);
  }
  [[nodiscard]] int num_levels() const override { return 2; }
};

Instruction named(const std::string& name, StreamKind stream) {
  Instruction instruction;
  instruction.name = name;
  instruction.stream = stream;
  if (stream == StreamKind::kCompute) return instruction;
  instruction.op = OpKind::kCast;
  instruction.collective = CastKind::kAllReduce;
  instruction.group = Axis::kDp;
  return instruction;
}

RankPrograms two_ranks(const std::vector<Instruction>& instructions) {
  const Mesh mesh({1, 2, 1, 1, 1});  // dp = 2
  std::vector<Program> programs(2);
  for (int rank = 0; rank < 2; ++rank) {
    Program& program = programs[static_cast<size_t>(rank)];
    program.rank = rank;
    program.mesh = mesh;
    program.buffers = {{.name = "x", .shape = {8}}};
    program.instructions = instructions;
    for (Instruction& instruction : program.instructions) {
      instruction.inputs = instruction.outputs = {0};
    }
  }
  return all_programs(std::move(programs));
}

double end_of(const StepTimeline& timeline, const std::string& name) {
  for (const RankTimeline& rank : timeline.ranks) {
    for (size_t i = 0; i < rank.times.size(); ++i) {
      if (rank.program->instructions[i].name == name) return rank.times[i].end;
    }
  }
  return -1;
}

TEST(SharedLinksTest, TwoEqualTransfersOnOneLinkTakeExactlyTwice) {
  const RankPrograms programs =
      two_ranks({named("a", StreamKind::kComm), named("b", StreamKind::kData)});
  NamedTimes times;
  times.transfers = {{"a", {.wire_s = 1}}, {"b", {.wire_s = 1}}};
  const StepTimeline shared = replay_step(programs, times);
  EXPECT_EQ(end_of(shared, "a"), 2);
  EXPECT_EQ(end_of(shared, "b"), 2);
  // On links of their own they do not feel each other.
  times.transfers["b"].level = 1;
  const StepTimeline apart = replay_step(programs, times);
  EXPECT_EQ(end_of(apart, "a"), 1);
  EXPECT_EQ(end_of(apart, "b"), 1);
}

TEST(SharedLinksTest, WhoIsLeftAloneGoesOnAtFullSpeed) {
  const RankPrograms programs =
      two_ranks({named("a", StreamKind::kComm), named("b", StreamKind::kData)});
  NamedTimes times;
  times.transfers = {{"a", {.wire_s = 1}}, {"b", {.wire_s = 3}}};
  const StepTimeline timeline = replay_step(programs, times);
  EXPECT_EQ(end_of(timeline, "a"), 2);
  EXPECT_EQ(end_of(timeline, "b"), 4);
  // Latency takes no room: b comes to the link when a is done.
  times.transfers["b"].latency_s = 1;
  EXPECT_EQ(end_of(replay_step(programs, times), "a"), 1);
  EXPECT_EQ(end_of(replay_step(programs, times), "b"), 4);
}

TEST(SharedLinksTest, KernelsLoseTheLargestShareWhileBytesAreOnTheWire) {
  const RankPrograms programs =
      two_ranks({named("a", StreamKind::kComm), named("b", StreamKind::kData),
                 named("kernel", StreamKind::kCompute)});
  NamedTimes times;
  times.transfers = {{"a", {.wire_s = 1, .kernel_share = 0.5}},
                     {"b", {.wire_s = 2, .level = 1, .kernel_share = 0.25}}};
  times.kernels = {{"kernel", 2}};
  // 1 s at a half, 1 s at three quarters, the rest at full speed.
  EXPECT_EQ(end_of(replay_step(programs, times), "kernel"), 2 + 0.75);
  for (auto& [name, transfer] : times.transfers) transfer.kernel_share = 0;
  EXPECT_EQ(end_of(replay_step(programs, times), "kernel"), 2);
}

}  // namespace
}  // namespace tessera
