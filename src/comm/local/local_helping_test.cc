// Where threads outnumber cores, any member moves the parts of the others (shared/helping.cc).
#include <chrono>
#include <latch>

#include "comm/testing/local_ranks.h"

namespace tessera {
namespace {

using namespace tessera::testing;
using std::chrono::milliseconds;

constexpr int kRanks = 4;
constexpr int64_t kBlock = 20'000;  // elements; too many for a mailbox

struct HelpedCall {
  CollectiveOp op;
  bool in_place = false;
};

std::string name_of_case(const ::testing::TestParamInfo<HelpedCall>& info) {
  return std::string(name_of(info.param.op)) + (info.param.in_place ? "_in_place" : "");
}

// What one rank hands in and gets back. Both buffers have room for a block of every rank.
struct RankData {
  std::vector<float> in = std::vector<float>(kRanks * kBlock);
  std::vector<float> out = std::vector<float>(kRanks * kBlock);
  int64_t bytes_sent = 0;

  CollectiveCall call(const HelpedCall& helped, int rank) {
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = 0.1F * static_cast<float>(rank + 1) + static_cast<float>(i % 977);
    }
    if (helped.in_place) out = in;
    return {.op = helped.op,
            .dtype = DType::kF32,
            .root = 1,
            .count = kBlock,
            .in = helped.in_place ? out.data() : in.data(),
            .out = out.data()};
  }
};

class LocalHelpingTest : public ::testing::TestWithParam<HelpedCall> {
 protected:
  // `busy_threads` per rank: many make the world crowded, none makes it roomy, on every machine.
  static std::vector<RankData> run_once(int busy_threads) {
    LocalWorld world({.size = kRanks, .busy_threads = busy_threads});
    std::vector<RankData> data(kRanks);
    expect_no_errors(run_ranks(kRanks, [&](int rank) {
      RankData& mine = data[static_cast<size_t>(rank)];
      const auto comm = world.join("dp", iota_ranks(kRanks), rank);
      comm->run(mine.call(GetParam(), rank));
      comm->barrier();  // all have counted
      mine.bytes_sent = comm->counters()[static_cast<size_t>(GetParam().op)].bytes_sent;
    }));
    return data;
  }
};

constexpr int kCrowded = 1000;
constexpr int kRoomy = 0;

TEST_P(LocalHelpingTest, GivesTheBitsAndBytesOfNoHelp) {
  const std::vector<RankData> helped = run_once(kCrowded);
  const std::vector<RankData> alone = run_once(kRoomy);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(helped[rank].out, alone[rank].out) << "rank " << rank;
    EXPECT_EQ(helped[rank].bytes_sent, alone[rank].bytes_sent) << "rank " << rank;
  }
}

TEST_P(LocalHelpingTest, FinishesWithoutARankThatHasOnlyArrived) {
  const std::vector<RankData> expected = run_once(kRoomy);
  LocalWorld world({.size = kRanks, .timeout = milliseconds(10'000), .busy_threads = kCrowded});
  std::vector<RankData> data(kRanks);
  std::latch others_are_done(kRanks - 1);
  expect_no_errors(run_ranks(kRanks, [&](int rank) {
    const auto comm = world.join("dp", iota_ranks(kRanks), rank);
    const CollectiveCall call = data[static_cast<size_t>(rank)].call(GetParam(), rank);
    if (rank == kRanks - 1) {
      Work work = comm->start(call);
      others_are_done.wait();  // they give up after the timeout of the world
      work.wait();
      return;
    }
    try {
      comm->run(call);
    } catch (const CommError&) {
      others_are_done.count_down();
      throw;
    }
    others_are_done.count_down();
  }));
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(data[rank].out, expected[rank].out) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, LocalHelpingTest,
                         ::testing::Values(HelpedCall{CollectiveOp::kAllReduce},
                                           HelpedCall{CollectiveOp::kAllReduce, true},
                                           HelpedCall{CollectiveOp::kReduce},
                                           HelpedCall{CollectiveOp::kReduceScatter},
                                           HelpedCall{CollectiveOp::kAllGather},
                                           HelpedCall{CollectiveOp::kAllToAll},
                                           HelpedCall{CollectiveOp::kAllToAll, true}),
                         name_of_case);

}  // namespace
}  // namespace tessera
