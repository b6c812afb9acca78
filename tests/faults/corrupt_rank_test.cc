// Row 28 of the matrix of faults: a bit of a weight that flips in the memory of one rank.
#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

class CorruptRankTest : public FaultTest {};

TEST_F(CorruptRankTest, Row28TheMajorityNamesTheRankAndItIsReplaced) {
  const std::string mesh = "--mesh dp=4 ";
  const CommandResult straight = train("", mesh + "--compare-replicas 2");
  ASSERT_EQ(straight.code, 0) << straight.err;
  EXPECT_TRUE(events("verdict").empty());
  const std::string weights = read_file(folder_.path("out/model.safetensors"));

  // Without a comparison nothing shows.
  EXPECT_EQ(train("step.end:rank=2,step=4,act=flip", mesh).code, 0);
  EXPECT_TRUE(events("verdict").empty());
  EXPECT_FALSE(read_file(folder_.path("out/model.safetensors")) == weights);

  const CommandResult result = train("step.end:rank=2,step=4,act=flip",
                                     mesh + "--restarts 1 --spares 1 --compare-replicas 2");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(read_file(folder_.path("out/model.safetensors")) == weights);
  expect_verdict({.verdict = "corrupt", .rank = 2, .phase = "step", .step = 4});
  EXPECT_EQ(events("verdict").at(1).at("rank"), 2);
  ASSERT_EQ(events("spare").size(), 1U);
  EXPECT_EQ(events("spare")[0].at("rank"), 2);
  expect_good_checkpoints();
  expect_nothing_left();
}

// What is saved has been compared: the error is found before it is kept.
TEST_F(CorruptRankTest, Row28OfTwoThatDifferNeitherIsNamed) {
  const CommandResult result =
      train("step.end:rank=1,step=6,act=flip", "--restarts 1 --compare-replicas 1000");
  expect_survived(result, {.verdict = "corrupt", .rank = 0, .phase = "step", .step = 6});
  EXPECT_EQ(events("verdict")[0].at("ranks").size(), 2U);
  EXPECT_FALSE(events("verdict")[0].at("majority").get<bool>());
}

// Replicas are equal on every mesh, however their state is cut.
TEST_F(CorruptRankTest, NothingIsFoundWhereNothingHappened) {
  for (const std::string mesh : {"dp=2,tp=2", "dp=2,zero=1", "dp=2,zero=2", "dp=2,pp=2",
                                 "dp=2,fsdp=2,zero=3", "cp=2,tp=2"}) {
    for (const std::string dtype : {"f32", "bf16"}) {
      SCOPED_TRACE(mesh + dtype);
      const CommandResult result = train(
          "", "--threads --set train.steps=2 --compare-replicas 1 --set train.dtype=" + dtype +
                  " --mesh " + mesh);
      EXPECT_EQ(result.code, 0) << result.err;
      EXPECT_TRUE(events("verdict").empty());
    }
  }
}

TEST_F(CorruptRankTest, AMeshWithoutReplicasIsRefused) {
  const CommandResult result = train("", "--threads --compare-replicas 1 --mesh fsdp=2,zero=3");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("holds a part that no other has"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera::testing
