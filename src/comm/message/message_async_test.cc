// Calls in flight: many at once, on several groups, waited for in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "comm/testing/message_world.h"

namespace tessera {
namespace {

using namespace tessera::testing;
using std::chrono::milliseconds;

QueueNetworkOptions slow_network(int ranks) {
  return {.ranks = ranks, .rendezvous = true, .longest = std::chrono::microseconds(200)};
}

CollectiveCall all_reduce(std::vector<float>& data, Algorithm algorithm = Algorithm::kAuto) {
  return {.op = CollectiveOp::kAllReduce,
          .count = static_cast<int64_t>(data.size()),
          .in = data.data(),
          .out = data.data(),
          .algorithm = algorithm};
}

// Ranks wait in an order of their own.
TEST(MessageAsyncTest, ManyCallsAreInFlight) {
  constexpr int kRanks = 4;
  constexpr int kCalls = 24;
  QueueNetwork network(slow_network(kRanks));
  expect_no_errors(run_message_ranks(network, kRanks, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("world");
    constexpr Algorithm kAlgorithms[] = {Algorithm::kDirect, Algorithm::kRing, Algorithm::kTree,
                                         Algorithm::kDoubling};
    std::mt19937 random(static_cast<uint32_t>(world.rank()));
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<float>> data;
      for (int i = 0; i < kCalls; ++i) {
        data.emplace_back(100 + 50 * i, static_cast<float>(i + world.rank()));
      }
      std::vector<Work> works;
      for (int i = 0; i < kCalls; ++i) {
        works.push_back(comm->start(all_reduce(data[static_cast<size_t>(i)], kAlgorithms[i % 4])));
      }
      std::shuffle(works.begin(), works.end(), random);
      for (Work& work : works) work.wait();
      for (int i = 0; i < kCalls; ++i) {
        const std::vector<float>& sum = data[static_cast<size_t>(i)];
        EXPECT_EQ(std::count(sum.begin(), sum.end(), static_cast<float>(4 * i + 6)),
                  static_cast<int64_t>(sum.size()));
      }
    }
  }));
}

// Rows and columns of a 2 x 3 mesh: half of the ranks wait for their row first, half for their
// column. Only because a wait moves all groups along does this end.
TEST(MessageAsyncTest, GroupsAreWaitedForInAnyOrder) {
  QueueNetwork network(slow_network(6));
  expect_no_errors(run_message_ranks(network, 6, patient(), [](CommWorld& world) {
    const int row = world.rank() / 3;
    const int column = world.rank() % 3;
    const std::vector<int> row_members = {3 * row, 3 * row + 1, 3 * row + 2};
    const std::vector<int> column_members = {column, column + 3};
    const auto rows = world.join(fmt::format("row {}", row), row_members);
    const auto columns = world.join("column", column_members);
    for (int round = 0; round < 20; ++round) {
      std::vector<float> a(1000, 1.0F);
      std::vector<float> b(1000, 1.0F);
      Work first = rows->start(all_reduce(a, Algorithm::kRing));
      Work second = columns->start(all_reduce(b, Algorithm::kRing));
      Work& sooner = world.rank() % 2 == 0 ? first : second;
      Work& later = world.rank() % 2 == 0 ? second : first;
      sooner.wait();
      later.wait();
      EXPECT_EQ(a[999], 3.0F);
      EXPECT_EQ(b[999], 2.0F);
    }
  }));
}

// Started here first and there last: neither may block the other.
TEST(MessageAsyncTest, GroupsAreStartedInAnyOrder) {
  QueueNetwork network(slow_network(2));
  expect_no_errors(run_message_ranks(network, 2, patient(), [](CommWorld& world) {
    const auto one = world.join_all("one");
    const auto two = world.join_all("two");
    for (int round = 0; round < 20; ++round) {
      std::vector<float> a(500, 1.0F);
      std::vector<float> b(500, 2.0F);
      Work work_one, work_two;
      if (world.rank() == 0) {
        work_one = one->start(all_reduce(a));
        work_two = two->start(all_reduce(b));
        work_one.wait();
      } else {
        work_two = two->start(all_reduce(b));
        work_one = one->start(all_reduce(a));
        work_two.wait();
      }
      work_one.wait();
      work_two.wait();
      EXPECT_EQ(a[0], 2.0F);
      EXPECT_EQ(b[0], 4.0F);
    }
  }));
}

// Two threads of a rank, each with a group of its own.
TEST(MessageAsyncTest, ThreadsUseTheirOwnGroups) {
  constexpr int kRanks = 3;
  QueueNetwork network(slow_network(kRanks));
  expect_no_errors(run_message_ranks(network, kRanks, patient(), [](CommWorld& world) {
    const auto worker = [&](const char* name) {
      const auto comm = world.join_all(name);
      for (int round = 0; round < 30; ++round) {
        std::vector<float> data(300, 1.0F);
        comm->run(all_reduce(data));
        EXPECT_EQ(data[299], 3.0F);
      }
    };
    std::thread other(worker, "other");
    worker("mine");
    other.join();
  }));
}

TEST(MessageAsyncTest, ManyMessagesAreInFlightInOrder) {
  constexpr int kMessages = 40;
  QueueNetwork network(slow_network(3));
  expect_no_errors(run_message_ranks(network, 3, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("pipe");
    std::vector<int64_t> data(kMessages);
    std::vector<Work> works;
    for (int i = 0; i < kMessages; ++i) {
      if (world.rank() == 0) data[static_cast<size_t>(i)] = i;
      CollectiveCall call{.dtype = DType::kI64, .count = 1, .in = &data[static_cast<size_t>(i)]};
      call.out = &data[static_cast<size_t>(i)];
      call.op = world.rank() == 0 ? CollectiveOp::kSend : CollectiveOp::kReceive;
      call.root = world.rank() == 0 ? 2 : 0;
      if (world.rank() != 1) works.push_back(comm->start(call));
    }
    // The last first: they are apart from each other, and from collectives.
    comm->barrier();
    std::reverse(works.begin(), works.end());
    for (Work& work : works) work.wait();
    for (int i = 0; i < kMessages && world.rank() == 2; ++i)
      EXPECT_EQ(data[static_cast<size_t>(i)], i);
  }));
}

TEST(MessageAsyncTest, TestAndWaitForDoNotBlock) {
  QueueNetwork network({.ranks = 2});
  std::atomic<bool> go{false};
  expect_no_errors(run_message_ranks(network, 2, patient(), [&](CommWorld& world) {
    const auto comm = world.join_all("world");
    std::vector<float> data(100, 1.0F);
    if (world.rank() == 1) {
      while (!go) std::this_thread::yield();
      comm->run(all_reduce(data));
      return;
    }
    Work work = comm->start(all_reduce(data));
    EXPECT_FALSE(work.test());
    EXPECT_FALSE(work.wait_for(milliseconds(20)));
    EXPECT_EQ(data[0], 1.0F);
    go = true;
    EXPECT_TRUE(work.wait_for(milliseconds(10'000)));
    EXPECT_TRUE(work.test());
    EXPECT_EQ(data[0], 2.0F);
  }));
}

TEST(MessageAsyncTest, ADroppedWorkIsWaitedFor) {
  QueueNetwork network(slow_network(2));
  expect_no_errors(run_message_ranks(network, 2, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("world");
    std::vector<float> data(5000, 1.0F);
    { const Work work = comm->start(all_reduce(data)); }
    EXPECT_EQ(data[4999], 2.0F);
  }));
}

TEST(MessageSplitTest, GroupsByColorInOrderOfKey) {
  constexpr int kRanks = 7;
  QueueNetwork network({.ranks = kRanks});
  expect_no_errors(run_message_ranks(network, kRanks, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("world");
    const int color = world.rank() == 6 ? -1 : world.rank() % 2;
    for (int again = 0; again < 2; ++again) {  // the same name twice is two groups
      const auto part = comm->split(color, /*key=*/-world.rank(), "part");
      ASSERT_EQ(part == nullptr, world.rank() == 6);
      if (part == nullptr) continue;
      EXPECT_EQ(part->size(), 3);
      const std::vector<int> want = color == 0 ? std::vector{4, 2, 0} : std::vector{5, 3, 1};
      EXPECT_TRUE(std::equal(want.begin(), want.end(), part->members().begin()));
      EXPECT_EQ(part->members()[static_cast<size_t>(part->rank())], world.rank());
      int32_t mine = world.rank();
      std::vector<int32_t> all(3);
      part->all_gather(&mine, all.data(), 1, DType::kI32);
      EXPECT_EQ(all, std::vector<int32_t>(want.begin(), want.end()));
    }
  }));
}

TEST(MessageTextsTest, AreExchanged) {
  QueueNetwork network({.ranks = 3});
  expect_no_errors(run_message_ranks(network, 3, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("world");
    const std::vector<std::string> want = {"", "1", "22"};
    EXPECT_EQ(exchange_texts(*comm, want[static_cast<size_t>(world.rank())]), want);
  }));
}

TEST(MessageAllocationTest, CollectivesDoNotAllocate) {
  constexpr int kRanks = 3;
  constexpr int64_t kCount = 5000;
  QueueNetwork network({.ranks = kRanks});
  expect_no_errors(run_message_ranks(network, kRanks, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("world");
    std::vector<float> full(kCount * kRanks);
    std::vector<float> shard(kCount);
    int64_t before = 0;
    for (int repeat = 0; repeat < 20; ++repeat) {
      if (repeat == 10) before = num_allocations;  // by now everything has its room
      comm->all_reduce(full.data(), kCount, DType::kF32);
      comm->all_reduce(full.data(), 10, DType::kF32);
      comm->reduce_scatter(full.data(), shard.data(), kCount, DType::kF32);
      comm->all_gather(shard.data(), full.data(), kCount, DType::kF32);
      comm->broadcast(full.data(), kCount, DType::kF32, 0);
      comm->barrier();
    }
    EXPECT_EQ(num_allocations, before);
  }));
}

// Rank 2 comes at least 5 ms after the others, every time.
TEST(MessageArrivalsTest, NameTheLateRank) {
  constexpr int kRanks = 3;
  constexpr int kRounds = 5;
  QueueNetwork network({.ranks = kRanks});
  std::atomic<int> num_started{0};
  expect_no_errors(run_message_ranks(network, kRanks, patient(), [&](CommWorld& world) {
    const auto comm = world.join_all("world");
    std::vector<float> data(1000);
    for (int round = 1; round <= kRounds; ++round) {
      if (world.rank() == 2) {
        while (num_started < 2 * round) std::this_thread::yield();
        std::this_thread::sleep_for(milliseconds(5));
        comm->run(all_reduce(data));
      } else {
        Work work = comm->start(all_reduce(data));
        ++num_started;
        work.wait();
      }
    }
    const std::vector<Arrival> arrivals = comm->arrivals();
    ASSERT_EQ(arrivals.size(), 3U);
    EXPECT_EQ(arrivals[2].world_rank, 2);
    EXPECT_EQ(arrivals[2].times_last, kRounds);
    EXPECT_GE(arrivals[2].p50_us, 4096);
    EXPECT_EQ(arrivals[0].times_last + arrivals[1].times_last, 0);
  }));
}

}  // namespace
}  // namespace tessera
