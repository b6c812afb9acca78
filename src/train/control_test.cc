#include "train/control.h"

#include <gtest/gtest.h>

#include "runtime/rank_threads.h"

namespace tessera {
namespace {

void on_ranks(int count, const std::function<void(Communicator& control)>& f) {
  LocalWorld world({.size = count, .timeout = std::chrono::milliseconds(10'000)});
  run_rank_threads(world, [&](int rank) { f(*world.endpoint(rank).join_all("control")); });
}

TEST(ControlTest, EveryRankHearsRankZero) {
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, [](Communicator& control) {
      const bool first = control.rank() == 0;
      EXPECT_EQ(text_of_rank_zero(control, first ? "one" : "another, longer text"), "one");
      EXPECT_EQ(text_of_rank_zero(control, first ? "" : "text"), "");
    });
  }
}

TEST(ControlTest, OneRankAloneIsHeardByAll) {
  for (const int ranks : {1, 2, 3}) {
    for (int loud = 0; loud < ranks; ++loud) {
      on_ranks(ranks, [&](Communicator& control) {
        EXPECT_EQ(largest_of_ranks(control, control.rank() == loud ? 15 : 0), 15);
        EXPECT_EQ(largest_of_ranks(control, 0), 0);
      });
    }
  }
}

RunSpec small_spec() {
  RunSpec spec;
  spec.model.layers = 3;
  spec.parallel.dp = 2;
  return spec;
}

TEST(ControlTest, TheMachineOfRankZeroDecides) {
  on_ranks(2, [](Communicator& control) {
    RunSpec mine = small_spec();
    const RunSpec agreed = agree_on_spec(control, mine, /*ranks_on_host=*/1);
    EXPECT_GT(agreed.train.threads, 0);
    EXPECT_GT(agreed.cluster.memory_gib, 0);
    EXPECT_EQ(agreed.model.layers, 3);
  });
}

TEST(ControlTest, ARankWithAnotherRunIsRefused) {
  std::atomic<int> refused{0};
  EXPECT_THROW(on_ranks(3,
                        [&](Communicator& control) {
                          RunSpec mine = small_spec();
                          if (control.rank() == 2) mine.train.seed = 7;
                          try {
                            agree_on_spec(control, mine, 1);
                          } catch (const ConfigError& error) {
                            EXPECT_EQ(control.rank(), 2);
                            EXPECT_EQ(std::string(error.what()),
                                      "train.seed is 7 on rank 2 but 1 on rank 0: start every rank "
                                      "with the same run file and flags");
                            ++refused;
                            throw;
                          }
                        }),
               ConfigError);
  EXPECT_EQ(refused.load(), 1);
}

}  // namespace
}  // namespace tessera
