// Every scenario on every backend of one host with 1 to 9 ranks.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "comm/testing/scenarios.h"
#include "comm/testing/shared_memory_backends.h"

namespace tessera {
namespace {

using namespace tessera::testing;

const SuiteTraits kTraits = shared_memory_traits();

class CommSuiteTest : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(CommSuiteTest, Passes) {
  const auto [backend, scenario, ranks] = GetParam();
  const Scenario& tested = all_scenarios()[static_cast<size_t>(scenario)];
  const auto outcomes = kSharedMemoryBackends[backend].run(
      {.ranks = ranks}, [&](CommWorld& world) { return run_scenario(tested, world, kTraits); });
  EXPECT_EQ(errors_of(outcomes), "");
}

std::string test_name(const ::testing::TestParamInfo<CommSuiteTest::ParamType>& test) {
  const auto [backend, scenario, ranks] = test.param;
  return std::string(kSharedMemoryBackends[backend].name) + "_" +
         std::string(all_scenarios()[static_cast<size_t>(scenario)].name) + "_" +
         std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(
    Backends, CommSuiteTest,
    ::testing::Combine(::testing::Range(0, 2),
                       ::testing::Range(0, static_cast<int>(all_scenarios().size())),
                       ::testing::Range(1, 10)),
    test_name);

// The same bits from threads and processes, and from run to run.
TEST(CommDigestTest, ThreadsAndProcessesAgree) {
  const auto digests = [](const Backend& backend, const Scenario& scenario) {
    const auto outcomes = backend.run(
        {.ranks = 5}, [&](CommWorld& world) { return run_scenario(scenario, world, kTraits); });
    EXPECT_EQ(errors_of(outcomes), "");
    std::vector<std::string> reports;
    for (const RankOutcome& outcome : outcomes) reports.push_back(outcome.report);
    return reports;
  };
  for (const Scenario& scenario : all_scenarios()) {
    if (scenario.name != "repeatable" && scenario.name != "in_flight") continue;
    const auto local = digests(kSharedMemoryBackends[0], scenario);
    EXPECT_EQ(local, digests(kSharedMemoryBackends[0], scenario)) << scenario.name;
    EXPECT_EQ(local, digests(kSharedMemoryBackends[1], scenario)) << scenario.name;
    EXPECT_NE(local[0], local[1]) << "the digest does not tell ranks apart";
  }
}

}  // namespace
}  // namespace tessera
