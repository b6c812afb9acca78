#include "spec/run_file/validate_optimizer.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"

namespace tessera {
namespace {

std::string refusal(const std::function<void(RunSpec&)>& change) {
  RunSpec spec;
  change(spec);
  try {
    check_optimizer(spec);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CheckOptimizer, TakesTheDefaults) {
  EXPECT_EQ(refusal([](RunSpec&) {}), "");
}

TEST(CheckOptimizer, RefusesSchedulesThatContradictThemselves) {
  EXPECT_TRUE(contains(refusal([](RunSpec& s) { s.optimizer.min_lr = 1; }), "is above lr"));
  EXPECT_TRUE(contains(refusal([](RunSpec& s) {
                         s.optimizer.schedule = LrSchedule::kConstant;
                         s.optimizer.min_lr = 1e-5;
                       }),
                       "stays at lr"));
  EXPECT_TRUE(contains(refusal([](RunSpec& s) { s.optimizer.decay_share = 0.2; }),
                       "decay_share is for schedule = \"wsd\""));
  const auto wsd = [](int64_t steps, double share) {
    return refusal([=](RunSpec& s) {
      s.optimizer.schedule = LrSchedule::kWsd;
      s.optimizer.decay_steps = steps;
      s.optimizer.decay_share = share;
    });
  };
  EXPECT_EQ(wsd(0, 0), "");
  EXPECT_EQ(wsd(100, 0), "");
  EXPECT_TRUE(contains(wsd(101, 0), "is more than train.steps = 100"));
  EXPECT_TRUE(contains(wsd(10, 0.1), "leave one of them out"));
}

TEST(CheckOptimizer, RefusesWhatIsOfTheOtherKind) {
  EXPECT_TRUE(contains(refusal([](RunSpec& s) { s.optimizer.momentum = 0.9; }), "momentum is for"));
  EXPECT_TRUE(
      contains(refusal([](RunSpec& s) { s.optimizer.nesterov = true; }), "nesterov is for"));
  const auto sgd = [](const std::function<void(OptimizerSpec&)>& change) {
    return refusal([&](RunSpec& s) {
      s.optimizer.kind = OptimizerKind::kSgd;
      change(s.optimizer);
    });
  };
  EXPECT_EQ(sgd([](OptimizerSpec& o) { o.momentum = 0.9; }), "");
  EXPECT_TRUE(contains(sgd([](OptimizerSpec& o) { o.beta2 = 0.999; }), "betas are for"));
  EXPECT_TRUE(contains(sgd([](OptimizerSpec& o) { o.eps = 1e-5; }), "eps is for"));
  EXPECT_TRUE(contains(sgd([](OptimizerSpec& o) { o.nesterov = true; }), "use momentum = 0.9"));
}

TEST(CheckOptimizer, RefusesAGuardThatCannotWork) {
  EXPECT_TRUE(contains(refusal([](RunSpec& s) { s.train.spike_norm = 0.5; }), "above 1"));
  EXPECT_TRUE(contains(refusal([](RunSpec& s) {
                         s.train.skip_spikes = true;
                         s.parallel.schedule = PipelineKind::kPipedream;
                       }),
                       "schedule = \"1f1b\""));
}

TEST(CheckOptimizer, StatesFollowFromTheKind) {
  OptimizerSpec o;
  EXPECT_EQ(o.states(), 2);
  o.kind = OptimizerKind::kSgd;
  EXPECT_EQ(o.states(), 0);
  o.momentum = 0.9;
  EXPECT_EQ(o.states(), 1);
}

}  // namespace
}  // namespace tessera
