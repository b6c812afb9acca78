// Disagreement, absence, abort and departure over messages: every rank learns the reason, and
// nobody hangs.
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "base/testing/message_of.h"
#include "comm/message/call_recipe.h"
#include "comm/testing/message_world.h"

namespace tessera {
namespace {

using namespace tessera::testing;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int64_t kCount = 96;

// Any collective, on buffers of its own that it frees on the way out.
void call(Communicator& comm, CollectiveCall call) {
  const std::vector<char> initial(static_cast<size_t>(kCount * 8 * 8), 42);
  std::vector<char> in = initial;
  std::vector<char> out = initial;
  call.in = in.data();
  call.out = out.data();
  try {
    comm.run(call);
  } catch (const CommError&) {
    EXPECT_EQ(in, initial);
    throw;
  }
}

constexpr CollectiveCall kAllReduce{.op = CollectiveOp::kAllReduce, .tag = 7, .count = kCount};
constexpr CollectiveCall kAllGather{.op = CollectiveOp::kAllGather, .tag = 7, .count = kCount};
constexpr CollectiveCall kBarrier{.op = CollectiveOp::kBarrier, .tag = 7};
constexpr CollectiveCall kBroadcast{.op = CollectiveOp::kBroadcast, .tag = 7, .count = kCount};

CollectiveCall changed(CollectiveCall call, const std::function<void(CollectiveCall&)>& change) {
  change(call);
  return call;
}

struct Mismatch {
  const char* name;
  CollectiveCall usual;
  CollectiveCall odd;  // of world rank 3, the last of three
  std::string odd_text;
  std::string usual_text;
};

void PrintTo(const Mismatch& mismatch, std::ostream* out) { *out << mismatch.name; }

const Mismatch kMismatches[] = {
    {"op", kAllReduce, kAllGather, "all_gather(f32, 96, tag 7) #2",
     "all_reduce(f32, 96, tag 7) #2"},
    {"barrier", kAllReduce, kBarrier, "barrier(tag 7) #2", "all_reduce(f32, 96, tag 7) #2"},
    {"dtype", kAllReduce, changed(kAllReduce, [](auto& c) { c.dtype = DType::kI32; }),
     "all_reduce(i32, 96, tag 7) #2", "all_reduce(f32, 96, tag 7) #2"},
    {"count", kAllGather, changed(kAllGather, [](auto& c) { c.count = 95; }),
     "all_gather(f32, 95, tag 7) #2", "all_gather(f32, 96, tag 7) #2"},
    {"nothing", kAllGather, changed(kAllGather, [](auto& c) { c.count = 0; }),
     "all_gather(f32, 0, tag 7) #2", "all_gather(f32, 96, tag 7) #2"},
    {"tag", kBarrier, changed(kBarrier, [](auto& c) { c.tag = 8; }), "barrier(tag 8) #2",
     "barrier(tag 7) #2"},
    {"root", kBroadcast, changed(kBroadcast, [](auto& c) { c.root = 1; }),
     "broadcast(f32, 96, root 1, tag 7) #2", "broadcast(f32, 96, root 0, tag 7) #2"},
    {"reduction", kAllReduce, changed(kAllReduce, [](auto& c) { c.reduce = ReduceOp::kMax; }),
     "all_reduce(f32, 96, max, tag 7) #2", "all_reduce(f32, 96, tag 7) #2"},
    {"algorithm", kAllReduce, changed(kAllReduce, [](auto& c) { c.algorithm = Algorithm::kRing; }),
     "all_reduce(f32, 96, ring, tag 7) #2", "all_reduce(f32, 96, tag 7) #2"},
};

class MessageMismatchTest : public ::testing::TestWithParam<std::tuple<Mismatch, bool>> {};

TEST_P(MessageMismatchTest, EveryRankNamesBothSides) {
  const auto& [mismatch, rendezvous] = GetParam();
  QueueNetwork network({.ranks = 4, .rendezvous = rendezvous});
  const auto errors = run_message_ranks(network, 4, patient(), [&](CommWorld& world) {
    if (world.rank() == 1) {  // not in the group
      while (!world.aborted()) {
        try {
          world.join_all("apart")->barrier();
        } catch (const CommError&) {
        }
      }
      return;
    }
    const auto comm = world.join("tp", std::vector{0, 2, 3});
    comm->barrier();
    call(*comm, world.rank() == 3 ? mismatch.odd : mismatch.usual);
    comm->barrier();  // the neighbours may know before this one
  });
  // Whoever of ranks 0 and 2 finds out first is named.
  const std::string begin = "group tp: rank 3 called " + mismatch.odd_text + " while rank ";
  const std::string end = " called " + mismatch.usual_text;
  for (const int rank : {0, 2, 3}) {
    const std::string& error = errors[static_cast<size_t>(rank)];
    EXPECT_TRUE(contains(error, begin + "0" + end) || contains(error, begin + "2" + end)) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(Fields, MessageMismatchTest,
                         ::testing::Combine(::testing::ValuesIn(kMismatches), ::testing::Bool()),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param).name,
                                              std::get<1>(test.param) ? "rendezvous" : "eager");
                         });

TEST(MessageFailureTest, SelectionsMustAgree) {
  QueueNetwork network({.ranks = 2});
  const auto errors = run_ranks(2, [&](int rank) {
    MessageWorldOptions options = patient();
    options.selection.rules = {{.op = CollectiveOp::kAllReduce,
                                .algorithm = rank == 0 ? Algorithm::kRing : Algorithm::kTree}};
    const auto world = make_message_world(network.transport(rank), options);
    call(*world->join_all("dp"), kAllReduce);
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error,
                         "rank 1 called all_reduce(f32, 96, tag 7) #1 by tree while rank 0 "
                         "called all_reduce(f32, 96, tag 7) #1 by ring"))
        << error;
  }
}

// With two ranks, both see the header of the other before they touch anything.
TEST(MessageFailureTest, DataIsUntouchedWhenTwoDisagree) {
  QueueNetwork network({.ranks = 2});
  const auto errors = run_message_ranks(network, 2, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("world");
    std::vector<float> out(4 * kCount, 5.0F);
    const std::vector<float> in(4 * kCount, 6.0F);
    const std::vector<float> before = out;
    const int64_t count = world.rank() == 0 ? kCount : kCount - 1;
    try {
      comm->all_gather(in.data(), out.data(), count, DType::kF32);
    } catch (const CommError&) {
      EXPECT_EQ(out, before);
      throw;
    }
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error,
                         "group world: rank 1 called all_gather(f32, 95) #1 while rank 0 called "
                         "all_gather(f32, 96) #1"))
        << error;
  }
}

TEST(MessageFailureTest, CountsOfMessagesMustAgree) {
  QueueNetwork network({.ranks = 2});
  const auto errors = run_message_ranks(network, 2, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("pp");
    std::vector<float> data(100);
    if (world.rank() == 0) {
      comm->send(data.data(), 100, DType::kF32, 1);
      comm->send(data.data(), 99, DType::kF32, 1);
      comm->barrier();
    } else {
      comm->receive(data.data(), 100, DType::kF32, 0);
      comm->receive(data.data(), 100, DType::kF32, 0);
    }
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error,
                         "group pp: rank 1 called receive(f32, 100, from 0) #2 while rank 0 called "
                         "send(f32, 99, to 1) #2"))
        << error;
  }
}

TEST(MessageFailureTest, CountsOfAllToAllMustAgree) {
  QueueNetwork network({.ranks = 3});
  const auto errors = run_message_ranks(network, 3, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("ep");
    std::vector<int64_t> send_counts(3, 2);
    std::vector<int64_t> receive_counts(3, 2);
    if (world.rank() == 2) send_counts[0] = 0;
    std::vector<float> in(6), out(6);
    comm->all_to_all_v(in.data(), send_counts, out.data(), receive_counts, DType::kF32);
    comm->barrier();
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(
        error,
        "group ep: rank 2 sends 0 elements to rank 0, which expects 2, in all_to_all_v(f32) #1"))
        << error;
  }
}

// In a large group a rank may be done before anybody knows; it learns of it in its next call.
TEST(MessageFailureTest, LargeGroupsFindOutToo) {
  constexpr int kRanks = message::kSmallGroup + 3;
  QueueNetwork network({.ranks = kRanks});
  const auto errors = run_message_ranks(network, kRanks, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("world");
    std::vector<float> data(10);
    comm->broadcast(data.data(), world.rank() == 5 ? 9 : 10, DType::kF32, 0);
    comm->barrier();
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "broadcast(f32, 9, root 0) #1")) << error;
    EXPECT_TRUE(contains(error, "broadcast(f32, 10, root 0) #1")) << error;
  }
}

constexpr CollectiveOp kOps[] = {
    CollectiveOp::kBroadcast, CollectiveOp::kScatter,   CollectiveOp::kGather,
    CollectiveOp::kReduce,    CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
    CollectiveOp::kAllReduce, CollectiveOp::kAllToAll,  CollectiveOp::kBarrier};

class MessageEveryOpTest : public ::testing::TestWithParam<CollectiveOp> {};

TEST_P(MessageEveryOpTest, TimeoutNamesTheAbsent) {
  QueueNetwork network({.ranks = 3});
  MessageWorldOptions options{.timeout = milliseconds(60)};
  std::atomic<int> failed{0};
  const auto errors = run_message_ranks(network, 3, options, [&](CommWorld& world) {
    const auto comm = world.join_all("dp");
    comm->barrier();
    if (world.rank() == 1) {  // stays, but does not call
      while (failed < 2) std::this_thread::sleep_for(milliseconds(1));
      return;
    }
    try {
      call(*comm, {.op = GetParam(), .count = GetParam() == CollectiveOp::kBarrier ? 0 : kCount});
      call(*comm, kBarrier);
    } catch (const CommError&) {
      ++failed;
      throw;
    }
  });
  for (const int rank : {0, 2}) {
    const std::string& error = errors[static_cast<size_t>(rank)];
    EXPECT_TRUE(contains(error, "group dp: rank")) << error;
    EXPECT_TRUE(contains(error, "for rank 1 (thread) (last heard of in call #1)")) << error;
  }
}

TEST_P(MessageEveryOpTest, AbortWakesWaiters) {
  QueueNetwork network({.ranks = 4});
  std::atomic<int> waiting{0};
  Clock::time_point aborted_at;
  const auto errors = run_message_ranks(network, 4, patient(), [&](CommWorld& world) {
    const auto comm = world.join_all("world");
    comm->barrier();
    if (world.rank() == 3) {
      while (waiting < 3) std::this_thread::yield();
      std::this_thread::sleep_for(milliseconds(20));
      aborted_at = Clock::now();
      world.abort("loss is NaN on rank 3");
      world.abort("a later reason");
      return;
    }
    ++waiting;
    call(*comm, {.op = GetParam(), .count = GetParam() == CollectiveOp::kBarrier ? 0 : kCount});
    call(*comm, kBarrier);
  });
  EXPECT_LT(Clock::now() - aborted_at, milliseconds(500));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(contains(errors[static_cast<size_t>(rank)], "loss is NaN on rank 3"));
  }
}

// Buffers are freed at once, so a late store would be seen by a sanitizer, and corrupt the heap.
TEST_P(MessageEveryOpTest, AbortAtAnyTimeEndsEverybody) {
  constexpr int kRanks = 4;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> delay_us(0, 600);
  for (int round = 0; round < 20; ++round) {
    QueueNetwork network({.ranks = kRanks,
                          .rendezvous = round % 2 == 0,
                          .longest = std::chrono::microseconds(100),
                          .seed = static_cast<uint32_t>(round)});
    const int after_us = delay_us(random);
    const auto errors = run_message_ranks(network, kRanks, patient(), [&](CommWorld& world) {
      const auto comm = world.join_all("world");
      std::thread killer;
      if (world.rank() == round % kRanks) {
        killer = std::thread([&world, after_us] {
          std::this_thread::sleep_for(std::chrono::microseconds(after_us));
          world.abort("enough");
        });
      }
      try {
        while (true) {
          call(*comm,
               {.op = GetParam(), .count = GetParam() == CollectiveOp::kBarrier ? 0 : kCount});
        }
      } catch (const CommError&) {
        if (killer.joinable()) killer.join();
        throw;
      }
    });
    for (const std::string& error : errors) EXPECT_TRUE(contains(error, "enough")) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, MessageEveryOpTest, ::testing::ValuesIn(kOps),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(MessageFailureTest, ARankThatLeavesIsNamedAtOnce) {
  QueueNetwork network({.ranks = 3});
  const Clock::time_point begin = Clock::now();
  const auto errors = run_message_ranks(network, 3, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("dp");
    comm->barrier();
    if (world.rank() != 2) call(*comm, kAllReduce);
  });
  EXPECT_LT(Clock::now() - begin, milliseconds(5'000));  // far below the timeout
  EXPECT_EQ(errors[2], "");
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(
        contains(errors[static_cast<size_t>(rank)],
                 "waits in all_reduce(f32, 96, tag 7) #2 for rank 2 (thread), which has left"))
        << errors[static_cast<size_t>(rank)];
  }
}

TEST(MessageFailureTest, ARankThatIsCutOffIsNamedByTheOthers) {
  QueueNetwork network({.ranks = 3});
  const auto errors =
      run_message_ranks(network, 3, {.timeout = milliseconds(100)}, [&](CommWorld& world) {
        const auto comm = world.join_all("dp");
        comm->barrier();
        if (world.rank() == 2) network.cut_off(2);
        for (int i = 0; i < 1000; ++i) call(*comm, kAllReduce);
      });
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(contains(errors[static_cast<size_t>(rank)], "for rank 2 (thread) (last heard of"))
        << errors[static_cast<size_t>(rank)];
  }
  EXPECT_TRUE(contains(errors[2], "rank 2 waited ")) << errors[2];
}

// All but rank 3 hear from those they need and lack only data; they leave the word to rank 3.
TEST(MessageFailureTest, TheRankThatKnowsWhoIsAbsentSpeaks) {
  constexpr int kRanks = message::kSmallGroup + 1;
  QueueNetwork network({.ranks = kRanks});
  std::atomic<bool> over{false};
  const auto errors =
      run_message_ranks(network, kRanks, {.timeout = milliseconds(600)}, [&](CommWorld& world) {
        const auto comm = world.join_all("dp");
        if (world.rank() == 2) {
          while (!over) std::this_thread::sleep_for(milliseconds(1));
          return;
        }
        try {
          call(*comm, changed(kAllReduce, [](auto& c) { c.algorithm = Algorithm::kRing; }));
        } catch (const CommError&) {
          over = true;
          throw;
        }
      });
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == 2) continue;
    const std::string& error = errors[static_cast<size_t>(rank)];
    EXPECT_TRUE(contains(error, "rank 3 waited ")) << error;
    EXPECT_TRUE(contains(error, "for rank 2 (thread) (never heard of)")) << error;
  }
}

TEST(MessageFailureTest, ALateRankIsReportedOnce) {
  QueueNetwork network({.ranks = 2});
  std::mutex mutex;
  std::vector<std::string> warnings;
  MessageWorldOptions options = patient();
  options.slow_after = milliseconds(20);
  options.on_warning = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    warnings.push_back(text);
  };
  expect_no_errors(run_message_ranks(network, 2, options, [](CommWorld& world) {
    const auto comm = world.join_all("dp");
    if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(100));
    call(*comm, kAllReduce);
  }));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(contains(warnings[0], "group dp: rank 0 has waited ")) << warnings[0];
  EXPECT_TRUE(contains(warnings[0],
                       " in all_reduce(f32, 96, tag 7) #1 for rank 1 (thread) (never heard of)"))
      << warnings[0];
}

std::string error_of(const std::function<void()>& f) {
  return testing::message_of<Error>([&] { f(); });
}

TEST(MessageFailureTest, BadArgumentsAbortTheWorld) {
  float data[8] = {};
  const std::pair<std::function<void(Communicator&)>, const char*> cases[] = {
      {[&](Communicator& c) { c.all_reduce(data, -1, DType::kF32); }, "count is -1"},
      {[&](Communicator& c) { c.all_reduce(nullptr, 1, DType::kF32); }, "null"},
      {[&](Communicator& c) { c.broadcast(data, 1, DType::kF32, 2); }, "ranks are 0 to 1"},
      {[&](Communicator& c) { c.all_gather(data + 1, data, 2, DType::kF32); }, "overlaps"},
      {[&](Communicator& c) { c.send(data, 1, DType::kF32, 0); }, "no messages for itself"},
      {[&](Communicator& c) { c.send(data, 1, DType::kF32, 5); }, "ranks are 0 to 1"},
      {[&](Communicator& c) {
         c.run({.op = CollectiveOp::kAllGather,
                .count = 1,
                .in = data,
                .out = data + 2,
                .algorithm = Algorithm::kTree});
       },
       "all_gather has no algorithm 'tree': use direct, naive, ring, doubling, hierarchical"},
  };
  for (const auto& [bad, text] : cases) {
    QueueNetwork network({.ranks = 2});
    const auto world = make_message_world(network.transport(0), patient());
    const auto comm = world->join_all("tp");
    const std::string error = error_of([&, &f = bad] { f(*comm); });
    EXPECT_TRUE(contains(error, text)) << error;
    EXPECT_TRUE(contains(error, "group tp: rank 0 called ")) << error;
    EXPECT_EQ(world->abort_reason(), error);
    EXPECT_TRUE(contains(error_of([&] { comm->barrier(); }), "after the world was aborted"));
  }
}

TEST(MessageFailureTest, JoinChecksMembers) {
  QueueNetwork network({.ranks = 4});
  const auto world = make_message_world(network.transport(0), patient());
  std::vector<std::unique_ptr<Communicator>> groups;
  const auto join = [&](std::vector<int> members) {
    return error_of([&] { groups.push_back(world->join("tp", members)); });
  };
  EXPECT_TRUE(contains(join({1, 2}), "rank 0 joined but is not among the 2 members"));
  EXPECT_TRUE(contains(join({}), "rank 0 joined but is not among the 0 members"));
  EXPECT_TRUE(contains(join({0, 4}), "member 4 is not in the world"));
  EXPECT_TRUE(contains(join({-1, 0}), "member -1 is not in the world"));
  EXPECT_TRUE(contains(join({0, 1, 1}), "member 1 follows 1"));
  EXPECT_TRUE(contains(join({1, 0}), "member 0 follows 1"));
  EXPECT_EQ(join({0, 1}), "no error");
  EXPECT_TRUE(contains(join({0, 1}), "rank 0 joined before"));
  EXPECT_EQ(join({0, 2}), "no error");
  EXPECT_FALSE(world->aborted());
}

TEST(MessageFailureTest, AnotherVersionIsRefused) {
  QueueNetwork network({.ranks = 2});
  const auto other = network.transport(1);
  const std::byte message[3] = {};
  other->send_control(0, message);
  const auto world = make_message_world(network.transport(0), patient());
  const auto comm = world->join_all("world");
  EXPECT_TRUE(
      contains(error_of([&] { comm->barrier(); }),
               "rank 1 (thread) runs another version of this program than rank 0 (thread)"));
}

}  // namespace
}  // namespace tessera
