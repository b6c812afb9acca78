#include "runtime/shift.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/rank_threads.h"

namespace tessera {
namespace {

float value_of(int rank, size_t i) {
  return static_cast<float>(rank * 1000 + static_cast<int>(i % 997));
}

// Small messages lie in mailboxes, large ones are read from the sender: both must go round.
TEST(Shift, EveryRankGetsWhatTheRankBeforeItHad) {
  for (const int ranks : {2, 3, 5}) {
    for (const int64_t count : {1, 700, 300'000}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} elements", ranks, count));
      LocalWorld world({.size = ranks});
      std::vector<int> members(static_cast<size_t>(ranks));
      std::iota(members.begin(), members.end(), 0);
      run_rank_threads(world, [&](int rank) {
        const auto group = world.join("cp", members, rank);
        std::vector<float> mine(static_cast<size_t>(count)), theirs(mine.size(), -1);
        for (size_t i = 0; i < mine.size(); ++i) mine[i] = value_of(rank, i);
        const Tensor in(mine.data(), DType::kF32, {count}),
            out(theirs.data(), DType::kF32, {count});
        for (uint32_t round = 1; round <= 3; ++round) shift(*group, in, out, round);
        const int before = (rank + ranks - 1) % ranks;
        for (size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(theirs[i], value_of(before, i));
        const auto sent = group->counters()[static_cast<size_t>(CollectiveOp::kSend)];
        EXPECT_EQ(sent.calls, 3);
        EXPECT_EQ(sent.bytes_sent, 3 * count * 4);
      });
    }
  }
}

// The message names the rank that nobody hears of.
TEST(Shift, ARankThatDoesNotComeIsNamed) {
  LocalWorld world({.size = 3, .timeout = std::chrono::milliseconds(200)});
  const std::vector<int> members = {0, 1, 2};
  std::vector<float> data(8);
  try {
    run_rank_threads(world, [&](int rank) {
      const auto group = world.join("cp", members, rank);
      if (rank == 1) {
        while (!world.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
      std::vector<float> out(8);
      shift(*group, Tensor(data.data(), DType::kF32, {8}), Tensor(out.data(), DType::kF32, {8}), 7);
    });
    FAIL() << "rank 2 waits for rank 1";
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
  }
}

// Ranks that are not at the same hop say so instead of taking the wrong keys.
TEST(Shift, AnotherHopIsRefused) {
  LocalWorld world({.size = 2, .timeout = std::chrono::milliseconds(2000)});
  const std::vector<int> members = {0, 1};
  EXPECT_THROW(run_rank_threads(world,
                                [&](int rank) {
                                  const auto group = world.join("cp", members, rank);
                                  std::vector<float> in(8), out(8);
                                  shift(*group, Tensor(in.data(), DType::kF32, {8}),
                                        Tensor(out.data(), DType::kF32, {8}),
                                        static_cast<uint32_t>(rank) + 1);
                                }),
               CommError);
}

}  // namespace
}  // namespace tessera
