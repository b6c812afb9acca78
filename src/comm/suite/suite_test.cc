// Every scenario on every backend of one host with 1 to 9 ranks.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "comm/testing/run_ranks.h"
#include "comm/testing/scenarios.h"

namespace tessera {
namespace {

using namespace tessera::testing;

struct Backend {
  const char* name;
  RunRanks run;
};
constexpr Backend kBackends[] = {{"local", run_as_threads}, {"shm", run_as_processes}};

SuiteTraits traits_of_shared_memory() {
  return {.offers =
              [](CollectiveOp op, Algorithm algorithm) {
                if (op == CollectiveOp::kAllReduce && algorithm == Algorithm::kOneShot) return true;
                return op != CollectiveOp::kBarrier && op != CollectiveOp::kSend &&
                       algorithm == Algorithm::kDirect;
              },
          .bytes_sent = expected_bytes};
}

class CommSuiteTest : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(CommSuiteTest, Passes) {
  const auto [backend, scenario, ranks] = GetParam();
  const SuiteTraits traits = traits_of_shared_memory();
  const Scenario& tested = all_scenarios()[static_cast<size_t>(scenario)];
  const auto outcomes = kBackends[backend].run(
      {.ranks = ranks}, [&](CommWorld& world) { return run_scenario(tested, world, traits); });
  EXPECT_EQ(errors_of(outcomes), "");
}

std::string test_name(const ::testing::TestParamInfo<CommSuiteTest::ParamType>& test) {
  const auto [backend, scenario, ranks] = test.param;
  return std::string(kBackends[backend].name) + "_" +
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
