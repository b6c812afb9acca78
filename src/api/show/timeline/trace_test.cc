#include "api/show/timeline/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/call.h"
#include "base/error.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

const Json kSmall = {
    {"model", "gpt2"}, {"cluster", "dgx-h100"}, {"tp", 2}, {"pp", 2}, {"global_batch", 16}};

TEST(ShowTraceTest, HasASliceForEveryRankAndEndsWithTheStep) {
  const nlohmann::ordered_json answer = call("trace", kSmall, {});
  const nlohmann::ordered_json step = call("simulate", kSmall, {});
  double end_us = 0;
  for (const auto& event : answer.at("trace").at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    end_us = std::max(end_us, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  EXPECT_NEAR(end_us * 1e-6, step.at("step_s").get<double>(), 1e-6);
}

TEST(ShowTraceTest, RefusesWhatIsTooLargeToOpen) {
  Json large = kSmall;
  large["model"] = "llama-3-405b";
  large["cluster"] = "h100-16384";
  large["tp"] = 8;
  large["pp"] = 16;
  EXPECT_THROW(call("trace", large, {}), ConfigError);
}

}  // namespace
}  // namespace tessera
