#include "base/failure.h"

#include <gtest/gtest.h>

#include <new>

namespace tessera {
namespace {

TEST(FailureTest, KeepsTheTextAndCodeOfAnError) {
  const Failure failure = failure_of(Error("the loss is NaN", ExitCode::kDiverged));
  EXPECT_EQ(failure.text, "the loss is NaN");
  EXPECT_EQ(failure.code, ExitCode::kDiverged);
  EXPECT_EQ(failure_of(ConfigError("no such key")).code, ExitCode::kUsage);
}

TEST(FailureTest, CallsABugABug) {
  EXPECT_EQ(failure_of(InternalError("internal error")).text,
            "internal error; this is a bug in Tessera");
  EXPECT_EQ(failure_of(std::out_of_range("map::at")).code, ExitCode::kFailed);
  EXPECT_EQ(failure_of(std::bad_alloc()).text.find("bug"), std::string::npos);
}

}  // namespace
}  // namespace tessera
