// Ranks that disagree, and calls that no rank may make: every rank gets the reason, on both
// backends, and nobody hangs.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "comm/testing/mismatches.h"
#include "comm/testing/shared_memory_backends.h"

namespace tessera {
namespace {

using namespace tessera::testing;

constexpr int kRanks = 3;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using BackendParam = ::testing::TestWithParam<int>;

const Backend& backend_of(int index) { return kSharedMemoryBackends[index]; }

class MismatchTest : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  const Backend& backend() { return backend_of(std::get<0>(GetParam())); }
  const Mismatch& mismatch() {
    return all_mismatches()[static_cast<size_t>(std::get<1>(GetParam()))];
  }
};

TEST_P(MismatchTest, EveryRankNamesBothSides) {
  for (const int odd_rank : {0, 1, 2}) {
    for (const bool heap_buffers : {true, false}) {
      const MismatchRun run = {.odd_rank = odd_rank, .heap_buffers = heap_buffers};
      const auto outcomes = backend().run({.ranks = kRanks}, [&](CommWorld& world) -> std::string {
        run_mismatch(world, mismatch(), run);
        return "";
      });
      for (const RankOutcome& outcome : outcomes) {
        for (const std::string& part : mismatch_texts(mismatch(), run)) {
          EXPECT_TRUE(contains(outcome.error, part)) << outcome.error << "\nlacks: " << part;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Backends, MismatchTest,
    ::testing::Combine(::testing::Range(0, 2),
                       ::testing::Range(0, static_cast<int>(all_mismatches().size()))),
    [](const auto& test) {
      return std::string(backend_of(std::get<0>(test.param)).name) + "_" +
             all_mismatches()[static_cast<size_t>(std::get<1>(test.param))].name;
    });

class MisuseTest : public BackendParam {
 protected:
  // The error of every rank after `body` as that rank.
  std::vector<std::string> errors(const std::function<void(CommWorld&)>& body,
                                  std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    const auto outcomes =
        backend_of(GetParam())
            .run({.ranks = kRanks, .timeout = timeout}, [&](CommWorld& world) -> std::string {
              body(world);
              return "";
            });
    std::vector<std::string> errors;
    for (const RankOutcome& outcome : outcomes) errors.push_back(outcome.error);
    return errors;
  }
};

TEST_P(MisuseTest, TheMessageReadsAsPromised) {
  const auto found = errors([](CommWorld& world) { run_mismatch(world, all_mismatches()[0], {}); });
  for (const std::string& error : found) {
    EXPECT_TRUE(contains(error,
                         "group tp: rank 2 called all_gather(f32, 4096) #17 while rank 0 called "
                         "all_reduce(f32, 4096) #17"))
        << error;
  }
}

struct BadCall {
  const char* name;
  std::function<void(Communicator&)> call;
  const char* text;
};

std::vector<BadCall> bad_calls() {
  static float data[64] = {};
  static const int64_t counts[] = {1, 1};
  static const int64_t negative[] = {1, -1, 1};
  return {
      {"a negative count", [](Communicator& c) { c.all_reduce(data, -1, DType::kF32); },
       "count is -1"},
      {"no output", [](Communicator& c) { c.all_reduce(nullptr, 1, DType::kF32); }, "null"},
      {"no input", [](Communicator& c) { c.all_gather(nullptr, data, 1, DType::kF32); }, "null"},
      {"no shard", [](Communicator& c) { c.reduce_scatter(data, nullptr, 1, DType::kF32); },
       "null"},
      {"a root beyond the last", [](Communicator& c) { c.broadcast(data, 1, DType::kF32, 3); },
       "root 3"},
      {"a root below the first", [](Communicator& c) { c.reduce(data, data, 1, DType::kF32, -1); },
       "root -1"},
      {"a shard at the wrong place",
       [](Communicator& c) { c.all_gather(data + 1, data, 2, DType::kF32); }, "overlap"},
      {"a shard at another's place",
       [](Communicator& c) {
         c.reduce_scatter(data, data + 2 * ((c.rank() + 1) % c.size()), 2, DType::kF32);
       },
       "overlap"},
      {"an all_reduce that is nearly in place",
       [](Communicator& c) {
         c.run({.op = CollectiveOp::kAllReduce, .count = 8, .in = data, .out = data + 1});
       },
       "overlap"},
      {"an all_to_all_v in place",
       [](Communicator& c) {
         static const int64_t ones[] = {1, 1, 1};
         c.all_to_all_v(data, ones, data, ones, DType::kF32);
       },
       "overlap"},
      {"counts for too few ranks",
       [](Communicator& c) { c.all_to_all_v(data, counts, data + 8, counts, DType::kF32); },
       "2 counts for 3 ranks"},
      {"a negative count among others",
       [](Communicator& c) { c.all_to_all_v(data, negative, data + 8, negative, DType::kF32); },
       "count is -1"},
      {"a mean of integers",
       [](Communicator& c) { c.all_reduce(data, 4, DType::kI32, 0, ReduceOp::kMean); }, "mean"},
      {"an algorithm of other collectives",
       [](Communicator& c) {
         c.run({.op = CollectiveOp::kScatter,
                .count = 4,
                .in = data,
                .out = data,
                .algorithm = Algorithm::kRing});
       },
       "ring"},
      {"a message to nobody", [](Communicator& c) { c.send(data, 1, DType::kF32, 3); },
       "ranks are 0 to 2"},
  };
}

// It ends the world, so that the peers of the rank that made the mistake hear of it too.
TEST_P(MisuseTest, BadCallsAreRefusedOnEveryRank) {
  for (const BadCall& bad : bad_calls()) {
    const auto found = errors([&](CommWorld& world) {
      const auto group = world.join_all("tp");
      if (world.rank() == 1) bad.call(*group);
      group->barrier();
    });
    for (const std::string& error : found) {
      EXPECT_TRUE(contains(error, bad.text)) << bad.name << ": " << error;
      EXPECT_TRUE(contains(error, "rank 1 called")) << bad.name << ": " << error;
    }
  }
}

// Sender and receiver each hear of it.
TEST_P(MisuseTest, MessagesMustAgree) {
  const auto exchange = [&](int64_t sent, int64_t received, DType dtype, uint32_t tag) {
    return errors([=](CommWorld& world) {
      const auto group = world.join_all("pp");
      std::vector<double> data(10'000);
      if (world.rank() == 0) group->send(data.data(), sent, DType::kF32, 1, 5);
      if (world.rank() == 1) group->receive(data.data(), received, dtype, 0, tag);
      group->barrier();
    });
  };
  for (const int64_t size : {8, 9000}) {
    EXPECT_EQ(exchange(size, size, DType::kF32, 5), std::vector<std::string>(kRanks));
    for (const auto& found :
         {exchange(size, size + 1, DType::kF32, 5), exchange(size, size, DType::kF64, 5),
          exchange(size, size, DType::kF32, 6)}) {
      for (const std::string& error : found) {
        EXPECT_TRUE(contains(error, "rank 1 called receive(")) << error;
        EXPECT_TRUE(contains(error, "rank 0 called send(")) << error;
      }
    }
  }
}

TEST_P(MisuseTest, TheTimeoutNamesTheAbsent) {
  const auto found = errors(
      [](CommWorld& world) {
        const auto group = world.join_all("dp");
        group->barrier();
        // Rank 2 makes no second call before the others give up.
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(15);
        while (world.rank() == 2 && !world.aborted()) {
          require(std::chrono::steady_clock::now() < deadline, "nobody gave up");
          std::this_thread::yield();
        }
        group->barrier();
      },
      std::chrono::milliseconds(150));
  for (const std::string& error : found) {
    EXPECT_TRUE(contains(error, "group dp")) << error;
    EXPECT_TRUE(contains(error, "barrier() #2")) << error;
    EXPECT_TRUE(contains(error, "rank 2 (")) << error;
    EXPECT_TRUE(contains(error, "made 1 calls")) << error;
    EXPECT_TRUE(contains(error, "waited 0.1")) << error;
  }
}

// Members that do not agree who is in the group never meet.
TEST_P(MisuseTest, GroupsOfOtherMembersTimeOut) {
  const auto found = errors(
      [](CommWorld& world) {
        const std::vector<int> members =
            world.rank() == 0 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2};
        world.join("tp", members)->barrier();
      },
      std::chrono::milliseconds(150));
  for (const std::string& error : found) EXPECT_TRUE(contains(error, "never joined")) << error;
}

TEST_P(MisuseTest, JoinChecksMembers) {
  const auto found = errors([](CommWorld& world) {
    const auto refused = [&](std::vector<int> members, const std::string& text) {
      try {
        (void)world.join("tp", members);
      } catch (const Error& error) {
        require(contains(error.what(), text), "'{}' lacks '{}'", error.what(), text);
        return;
      }
      throw Error("no error: " + text);
    };
    const int self = world.rank();
    refused({(self + 1) % kRanks}, "is not among the 1 members");
    refused({}, "is not among the 0 members");
    refused({self, 3}, "member 3 is not in the world");
    refused({-1, self}, "member -1 is not in the world");
    refused({self, self}, "must ascend");
    const auto group = world.join("tp", std::vector<int>{self});
    refused({self}, "joined before");
    require(!world.aborted(), "a refused join ended the world");
    group->barrier();
  });
  EXPECT_EQ(found, std::vector<std::string>(kRanks));
}

TEST_P(MisuseTest, NothingWorksAfterAnAbort) {
  const auto found = errors([](CommWorld& world) {
    const auto group = world.join_all("tp");
    group->barrier();
    if (world.rank() == 0) world.abort("the loss is NaN");
    try {
      for (;;) group->barrier();
    } catch (const CommError&) {
    }
    world.abort("a later reason");
    require(world.abort_reason() == "the loss is NaN", "reason: {}", world.abort_reason());
    float data[4] = {};
    group->all_reduce(data, 4, DType::kF32);
  });
  for (const std::string& error : found) {
    EXPECT_TRUE(contains(error, "all_reduce(f32, 4)")) << error;
    EXPECT_TRUE(contains(error, "the loss is NaN")) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MisuseTest, ::testing::Range(0, 2),
                         [](const auto& test) { return std::string(backend_of(test.param).name); });

}  // namespace
}  // namespace tessera
