// Every scenario on every backend of one host with 1 to 9 ranks.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "comm/testing/scenarios.h"
#include "comm/testing/shared_memory_backends.h"

namespace tessera {
namespace {

using namespace tessera::testing;

// One-shot contributions lie in mailboxes of this size.
constexpr int64_t kMailBytes = 16384;

bool offers(const SuiteCase& c, int size) {
  if (c.algorithm == Algorithm::kDirect) return true;
  return c.algorithm == Algorithm::kOneShot && size * c.count * size_bytes(c.dtype) <= kMailBytes;
}

class CommSuiteTest : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(CommSuiteTest, Passes) {
  const auto [backend, scenario, ranks] = GetParam();
  const SuiteTraits traits = {.offers = offers, .bytes_sent = expected_bytes};
  const Scenario& tested = all_scenarios()[static_cast<size_t>(scenario)];
  const auto outcomes = kSharedMemoryBackends[backend].run(
      {.ranks = ranks}, [&](CommWorld& world) { return run_scenario(tested, world, traits); });
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

}  // namespace
}  // namespace tessera
