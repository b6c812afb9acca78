#include "collective/play.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collective/cost.h"

namespace tessera {
namespace {

using enum CollectiveOp;

std::vector<std::vector<double>> some_values(CollectiveOp op, int ranks) {
  const int each = op == kGather || op == kAllGather ? 2 : 2 * ranks;
  std::vector<std::vector<double>> values(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < each; ++i) values[static_cast<size_t>(rank)].push_back(100 * rank + i + 1);
  }
  return values;
}

template <typename Check>
void for_each_collective(const Check& check) {
  for (const CollectiveOp op : {kBroadcast, kScatter, kGather, kReduce, kAllGather, kReduceScatter,
                                kAllReduce, kAllToAll}) {
    for (const Algorithm algorithm : supported_algorithms(op)) {
      for (const int ranks : {2, 3, 4, 5, 8, 16}) {
        for (const int root : {0, ranks - 1}) {
          if (root > 0 && !has_root(op)) continue;
          check(PlayRequest{
              .op = op, .algorithm = algorithm, .root = root, .values = some_values(op, ranks)});
        }
      }
    }
  }
}

std::string name_of(const PlayRequest& request) {
  return fmt::format("{} {} of {}, root {}", tessera::name_of(request.op),
                     tessera::name_of(request.algorithm), request.values.size(), request.root);
}

TEST(PlayTest, EveryCollectiveGivesWhatItPromises) {
  for_each_collective([](const PlayRequest& request) {
    EXPECT_EQ(play(request).after, promised_result(request)) << name_of(request);
  });
}

TEST(PlayTest, StepsAndChunksAreThoseOfTheClosedForms) {
  for_each_collective([](const PlayRequest& request) {
    const auto ranks = static_cast<int>(request.values.size());
    const bool in_parts =
        request.op == kScatter || request.op == kReduceScatter || request.op == kAllToAll;
    const auto each = static_cast<int64_t>(request.values[0].size()) / (in_parts ? ranks : 1);
    const CollectiveCost cost =
        closed_form_cost(request.op, request.algorithm,
                         {.ranks = ranks, .count = each, .element_bytes = 64, .ranks_per_node = 0});
    const PlayedCollective played = play(request);
    std::vector<int64_t> sent(request.values.size(), 0);
    for (const PlayedStep& step : played.steps) {
      EXPECT_FALSE(step.moves.empty()) << name_of(request);
      EXPECT_TRUE(step.waits.empty());
      for (const PlayedMove& move : step.moves) ++sent[static_cast<size_t>(move.from)];
    }
    EXPECT_EQ(static_cast<int>(played.steps.size()), cost.steps) << name_of(request);
    EXPECT_EQ(*std::max_element(sent.begin(), sent.end()) * 64, cost.bytes_sent)
        << name_of(request);
  });
}

// What a page shows at the end of the steps is the result.
TEST(PlayTest, TheLastStateHasTheResult) {
  for_each_collective([](const PlayRequest& request) {
    const PlayedCollective played = play(request);
    for (size_t rank = 0; rank < played.after.size(); ++rank) {
      for (size_t chunk = 0; chunk < played.after[rank].size(); ++chunk) {
        if (!played.after[rank][chunk]) continue;
        EXPECT_EQ(played.steps.back().state[rank][chunk], played.after[rank][chunk])
            << name_of(request) << " rank " << rank << " chunk " << chunk;
      }
    }
  });
}

TEST(PlayTest, InARingEveryRankSendsAndReceivesOnceInEveryStep) {
  for (const int ranks : {2, 4, 7}) {
    PlayRequest request{.values = {}};
    for (int r = 0; r < ranks; ++r) {
      request.values.emplace_back(static_cast<size_t>(ranks), r + 1.0);
    }
    const PlayedCollective played = play(request);
    EXPECT_EQ(static_cast<int>(played.steps.size()), 2 * (ranks - 1));
    for (size_t step = 0; step < played.steps.size(); ++step) {
      std::vector<int> sent(static_cast<size_t>(ranks), 0), received = sent;
      for (const PlayedMove& move : played.steps[step].moves) {
        ++sent[static_cast<size_t>(move.from)];
        ++received[static_cast<size_t>(move.to)];
        EXPECT_EQ(move.to, (move.from + 1) % ranks);
        EXPECT_EQ(move.reduce, static_cast<int>(step) < ranks - 1) << "first sums, then copies";
      }
      EXPECT_EQ(sent, std::vector<int>(static_cast<size_t>(ranks), 1));
      EXPECT_EQ(received, sent);
    }
  }
}

// A rank that is lost stops all others, at once or by and by; a step later, more is done before.
TEST(PlayTest, ALostRankLeavesTheOthersWaiting) {
  PlayRequest request{.values = std::vector<std::vector<double>>(4, {1, 2, 3, 4}), .lost = 2};
  const PlayedCollective played = play(request);
  std::set<int> waiting;
  for (const PlayedStep& step : played.steps) {
    for (const PlayedWait& wait : step.waits) waiting.insert(wait.rank);
  }
  EXPECT_EQ(waiting, (std::set{0, 1, 3}));
  EXPECT_EQ(played.steps[0].waits.size(), 2U) << "the two neighbours";
  EXPECT_NE(played.after, promised_result(request));
  request.lost_before_step = 3;
  const PlayedCollective later = play(request);
  EXPECT_TRUE(later.steps[0].waits.empty());
  EXPECT_GT(later.messages, played.messages);
}

}  // namespace
}  // namespace tessera
