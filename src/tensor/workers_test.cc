#include "tensor/workers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

TEST(Workers, EveryMemberRunsOncePerRegion) {
  for (const int size : {1, 2, 3, 5}) {
    Workers workers(size);
    std::vector<int> calls(static_cast<size_t>(size), 0);  // unguarded: TSan checks the barrier
    for (int region = 0; region < 500; ++region) {
      workers.run([&](int member) { ++calls[static_cast<size_t>(member)]; });
    }
    EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(size), 500));
  }
}

TEST(Workers, TheCallerIsMemberZeroAndATeamOfOneIsTheCaller) {
  const auto caller = std::this_thread::get_id();
  for (const int size : {1, 3}) {
    Workers workers(size);
    std::vector<std::thread::id> ids(static_cast<size_t>(size));
    workers.run([&](int member) { ids[static_cast<size_t>(member)] = std::this_thread::get_id(); });
    EXPECT_EQ(ids[0], caller);
    for (size_t i = 1; i < ids.size(); ++i) EXPECT_NE(ids[i], caller);
  }
}

TEST(Workers, ParallelForCoversEveryIndexOnceInMultiplesOfTheGrain) {
  for (const int size : {1, 2, 3}) {
    Workers workers(size);
    for (const int64_t count : {0, 1, 7, 64, 100, 1001}) {
      std::vector<int> seen(static_cast<size_t>(count), 0);
      workers.parallel_for(count, 8, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % 8, 0);
        EXPECT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(count), 1));
    }
  }
}

TEST(Workers, WakeAfterSleepingAndCostNothingWhileIdle) {
  Workers workers(3);
  int64_t sum = 0;
  std::vector<int64_t> parts(3, 0);
  workers.run([&](int member) { parts[static_cast<size_t>(member)] = member; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double cpu_ms = 1e3 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(cpu_ms, 50) << "members must sleep, not spin";
  workers.run([&](int member) { parts[static_cast<size_t>(member)] += member; });
  for (const int64_t part : parts) sum += part;
  EXPECT_EQ(sum, 6);
}

// The caller, too, must sleep while a member is late.
TEST(Workers, WaitsForASlowMember) {
  Workers workers(2);
  bool done = false;
  workers.run([&](int member) {
    if (member == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(Workers, SeveralTeamsShareFewCores) {
  std::vector<std::thread> ranks;
  std::vector<int> totals(4, 0);
  for (size_t rank = 0; rank < totals.size(); ++rank) {
    ranks.emplace_back([&totals, rank] {
      Workers workers(2);
      std::vector<int> counts(2, 0);
      for (int i = 0; i < 200; ++i) {
        workers.run([&](int member) { ++counts[static_cast<size_t>(member)]; });
      }
      totals[rank] = counts[0] + counts[1];
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(totals, std::vector<int>(4, 400));
}

TEST(Workers, RefuseAnEmptyTeam) { EXPECT_THROW(Workers(0), InternalError); }

TEST(WorkersDeathTest, AnExceptionInARegionEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Workers workers(2);
        workers.run([](int member) {
          if (member == 1) throw Error("in a region");
        });
      },
      "");
}

}  // namespace
}  // namespace tessera
