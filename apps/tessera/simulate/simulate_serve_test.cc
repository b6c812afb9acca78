// Requests to a model that is served, played before anything is started.
#include "simulate/simulate_serve.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "asked_words.h"

namespace tessera {
namespace {

using testing::contains;
using testing::json_of;
using testing::refusal_of_command;
using testing::Words;
using testing::operator+;

const Words kPlayed = {"simulate", "--serve", "llama-3.2-1b", "--cluster", "h100-1",
                       "--prompt", "512",     "--answer",     "16",        "--requests"};

TEST(SimulateServe, OneRequestAtATimeWaitsAsThePlanSays) {
  const nlohmann::json alone = json_of(kPlayed + Words{"3", "--concurrency", "1"});
  const nlohmann::json plan =
      json_of({"plan", "--serve", "llama-3.2-1b", "--cluster", "h100-1", "--max-context", "1k"});
  EXPECT_NEAR(alone.at("ttft").at("p50_s").get<double>(),
              plan.at("prediction").at("ttft")[0].at("first_token_s").get<double>(), 1e-4);
  EXPECT_EQ(alone.at("frames"), 3 * 16);
  EXPECT_EQ(alone.at("ttft").at("p50_s"), alone.at("ttft").at("p99_s"));
  EXPECT_EQ(alone.at("preemptions"), 0);
}

TEST(SimulateServe, MoreAtATimeWriteMoreAndWaitLonger) {
  const nlohmann::json one = json_of(kPlayed + Words{"16", "--concurrency", "1"});
  const nlohmann::json eight = json_of(kPlayed + Words{"16", "--concurrency", "8"});
  EXPECT_GT(eight.at("answer_tokens_per_s"), one.at("answer_tokens_per_s"));
  EXPECT_GT(eight.at("ttft").at("mean_s"), one.at("ttft").at("mean_s"));
  EXPECT_GT(eight.at("pages").at("most"), one.at("pages").at("most"));
  // Seldom enough is one at a time.
  const nlohmann::json seldom = json_of(kPlayed + Words{"16", "--rate", "0.001"});
  EXPECT_NEAR(seldom.at("ttft").at("p99_s").get<double>(), one.at("ttft").at("p99_s").get<double>(),
              1e-6);
}

TEST(SimulateServe, RefusesWhatIsNotItsOwn) {
  EXPECT_TRUE(contains(refusal_of_command(kPlayed + Words{"3"}), "--rate"));
  EXPECT_TRUE(contains(refusal_of_command({"simulate", "--serve", "llama-3.2-1b", "--rate", "1"}),
                       "--cluster"));
  EXPECT_TRUE(contains(refusal_of_command(kPlayed + Words{"3", "--rate", "1", "--dp", "2"}),
                       "--dp is of a run to train"));
  EXPECT_TRUE(contains(refusal_of_command(kPlayed + Words{"3", "--rate", "1", "--schedule-only"}),
                       "--schedule-only"));
  EXPECT_TRUE(contains(refusal_of_command({"simulate", "--rate", "1"}), "add --serve"));
}

}  // namespace
}  // namespace tessera
