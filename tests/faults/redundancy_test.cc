// Two groups of ranks compute the same and compare before the update: an error of one of them ends
// the generation in the step after it, before it reaches a checkpoint.
#include "faults/lanes_run.h"

namespace tessera::testing {
namespace {

class RedundancyTest : public LanesRunTest {};

TEST_F(RedundancyTest, ABitThatFlipsInOneGroupIsFoundBeforeTheUpdate) {
  use("dp=4\nzero=0", "dtype=\"f32\"\nredundancy=2");
  for (const int rank : {0, 3}) {
    SCOPED_TRACE(rank);
    const CommandResult result =
        train(fmt::format("step.end:rank={},step=7,act=flip", rank), "--restarts 1");
    ASSERT_EQ(result.code, 0) << result.err;
    expect_fixed_run();
    const std::vector<nlohmann::json> verdicts = events("verdict");
    ASSERT_EQ(verdicts.size(), 1U);
    EXPECT_EQ(verdicts[0].at("step"), 8);
    const std::string reason = verdicts[0].at("reason");
    EXPECT_NE(reason.find("step 8: instruction"), std::string::npos) << reason;
    EXPECT_NE(reason.find("ranks 0 to 1 of the group and ranks 2 to 3 have computed the same"),
              std::string::npos)
        << reason;
    expect_nothing_left();
  }
}

TEST_F(RedundancyTest, WithoutRestartsTheRunEnds) {
  use("dp=2", "dtype=\"bf16\"\nredundancy=2");
  const CommandResult result = train("step.end:rank=1,step=4,act=flip", "");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("step 5: instruction"), std::string::npos) << result.err;
}

// The control: nobody compares, and the run ends with other weights.
TEST_F(RedundancyTest, WithoutASecondGroupNobodyFindsIt) {
  use("dp=2");
  EXPECT_EQ(train("step.end:rank=1,step=7,act=flip", "--restarts 1").code, 0);
  EXPECT_TRUE(events("verdict").empty());
  EXPECT_FALSE(read_file(folder_.path("out/model.safetensors")) ==
               read_file(folder_.path("fixed/model.safetensors")));
}

}  // namespace
}  // namespace tessera::testing
