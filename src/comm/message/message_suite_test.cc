// The suite that every backend must pass, over messages, with every algorithm.
#include <gtest/gtest.h>

#include "collective/schedule.h"
#include "comm/testing/message_world.h"
#include "comm/testing/mismatches.h"
#include "comm/testing/scenarios.h"

namespace tessera {
namespace {

using namespace tessera::testing;

constexpr int kRanksPerNode = 2;

bool offers(const SuiteCase& c, int) { return supports(c.op, c.algorithm); }

int64_t bytes_of(const SuiteCase& c, int rank, int size) {
  std::vector<int> nodes;
  for (int peer = 0; peer < size; ++peer) nodes.push_back(peer / kRanksPerNode);
  return scheduled_bytes(c, rank, size, nodes);
}

class MessageSuiteTest : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(MessageSuiteTest, Passes) {
  const auto [scenario, ranks] = GetParam();
  const Scenario& tested = all_scenarios()[static_cast<size_t>(scenario)];
  const SuiteTraits traits = {.offers = offers, .bytes_sent = bytes_of};
  QueueNetwork network({.ranks = ranks,
                        .rendezvous = ranks % 2 == 1,
                        .longest = std::chrono::microseconds(ranks == 3 ? 50 : 0),
                        .ranks_per_node = kRanksPerNode});
  expect_no_errors(run_message_ranks(network, ranks, patient(), [&](CommWorld& world) {
    (void)run_scenario(tested, world, traits);
  }));
}

// Scenario and ranks. Large arrays on many ranks take long and show nothing new.
std::vector<std::tuple<int, int>> suite_runs() {
  std::vector<std::tuple<int, int>> runs;
  for (int i = 0; i < static_cast<int>(all_scenarios().size()); ++i) {
    const bool large = all_scenarios()[static_cast<size_t>(i)].name.starts_with("large");
    for (const int ranks : {1, 2, 3, 5, 9}) {
      if (!large || ranks <= 3) runs.emplace_back(i, ranks);
    }
  }
  return runs;
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, MessageSuiteTest, ::testing::ValuesIn(suite_runs()), [](const auto& test) {
      return std::string(all_scenarios()[static_cast<size_t>(std::get<0>(test.param))].name) + "_" +
             std::to_string(std::get<1>(test.param));
    });

class MessageDisagreementTest : public ::testing::TestWithParam<int> {};

TEST_P(MessageDisagreementTest, EveryRankNamesBothSides) {
  const Mismatch& mismatch = all_mismatches()[static_cast<size_t>(GetParam())];
  for (const int odd_rank : {0, 1, 2}) {
    const MismatchRun run = {.odd_rank = odd_rank};
    QueueNetwork network({.ranks = 3, .rendezvous = true});
    const auto errors = run_message_ranks(
        network, 3, patient(), [&](CommWorld& world) { run_mismatch(world, mismatch, run); });
    for (const std::string& error : errors) {
      for (const std::string& part : mismatch_texts(mismatch, run)) {
        EXPECT_TRUE(contains(error, part)) << error << "\nlacks: " << part;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Mismatches, MessageDisagreementTest,
                         ::testing::Range(0, static_cast<int>(all_mismatches().size())),
                         [](const auto& test) {
                           return all_mismatches()[static_cast<size_t>(test.param)].name;
                         });

}  // namespace
}  // namespace tessera
