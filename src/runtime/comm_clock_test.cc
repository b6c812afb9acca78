#include "runtime/comm_clock.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using std::chrono::milliseconds;

Instruction collective(CastKind kind, Axis axis, int signal) {
  Instruction instruction;
  instruction.op = OpKind::kCast;
  instruction.collective = kind;
  instruction.group = axis;
  instruction.stream = StreamKind::kComm;
  instruction.signal = signal;
  return instruction;
}

// A kernel, then two all-gathers and an all-reduce that it could wait for.
Program three_calls() {
  Program program;
  Instruction kernel;
  kernel.signal = 0;
  program.instructions = {kernel, collective(CastKind::kAllGather, Axis::kTp, 1),
                          collective(CastKind::kAllReduce, Axis::kDp, 2),
                          collective(CastKind::kAllGather, Axis::kTp, -1)};
  program.num_events = 3;
  return program;
}

TEST(CommClockTest, AddsUpByGroupAndOperation) {
  CommClock clock(three_calls());
  clock.add_busy(1, milliseconds(3));
  clock.add_busy(3, milliseconds(4));
  clock.add_busy(2, milliseconds(10));
  clock.add_exposed(1, milliseconds(2));
  clock.add_exposed(2, milliseconds(9));
  clock.add_exposed(0, milliseconds(100));  // a kernel: no communication
  clock.add_tail(StreamKind::kComm, milliseconds(1));
  clock.add_tail(StreamKind::kPipe, milliseconds(100));  // has no instruction
  const std::vector<CommTime> times = clock.times();
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].group, "dp");
  EXPECT_EQ(times[0].op, "all_reduce");
  EXPECT_DOUBLE_EQ(times[0].busy_s, 0.010);
  EXPECT_DOUBLE_EQ(times[0].exposed_s, 0.009);
  EXPECT_EQ(times[1].group, "tp");
  EXPECT_DOUBLE_EQ(times[1].busy_s, 0.007);
  EXPECT_DOUBLE_EQ(times[1].exposed_s, 0.003) << "with the tail: it is the last of its stream";
}

TEST(CommClockTest, ForgetsOnReset) {
  CommClock clock(three_calls());
  clock.add_busy(1, milliseconds(3));
  clock.add_exposed(1, milliseconds(3));
  clock.reset();
  for (const CommTime& time : clock.times()) {
    EXPECT_EQ(time.busy_s, 0);
    EXPECT_EQ(time.exposed_s, 0);
  }
}

TEST(CommClockTest, OneRankHasNoTimes) {
  Program program;
  program.instructions.resize(2);
  EXPECT_TRUE(CommClock(program).times().empty());
}

}  // namespace
}  // namespace tessera
