// Rows 3, 4 and 5 of the matrix of faults: a rank that is killed while a checkpoint is made.
#include <random>

#include "base/testing/share.h"
#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

class KilledSaveTest : public FaultTest {
 protected:
  // Four steps, a save after the second and one at the end.
  static constexpr const char* kFlags =
      "--restarts 1 --set train.steps=4 --set checkpoint.every=2 --set checkpoint.async=";
};

TEST_F(KilledSaveTest, Row3WhileItIsCopied) {
  for (const std::string async : {"false", "true"}) {
    // The second save may be left out where the first is still being written.
    const int step = async == "true" ? 3 : 6;
    for (const int rank : {0, 1}) {
      SCOPED_TRACE(async + std::to_string(rank));
      expect_survived(train(fmt::format("save.stage:rank={},step={},act=kill", rank, step),
                            "--restarts 1 --set checkpoint.async=" + async),
                      {.rank = rank, .phase = "save", .step = step});
    }
  }
}

// Before changes of files and folders, those of the commit included: what is there is the old
// checkpoint or the new one. Every ninth change, from another one on each time: all are met in the
// long run.
TEST_F(KilledSaveTest, Row4And5BeforeAChangeOfAFile) {
  constexpr int kStride = 9;
  std::random_device random;
  for (const std::string async : {"false", "true"}) {
    const Undisturbed whole = undisturbed(kFlags + async);
    int killed = 0;
    for (const int rank : {0, 1}) {
      for (int at = 1 + static_cast<int>(random() % kStride);; at += kStride) {
        SCOPED_TRACE(fmt::format("async {} rank {} change {}", async, rank, at));
        const CommandResult result =
            train(fmt::format("save.change:rank={},at={},act=kill", rank, at), kFlags + async);
        ASSERT_EQ(result.code, 0) << result.err;
        expect_same_as(whole);
        if (events("verdict").empty()) break;  // it made no more changes
        expect_verdict({.rank = rank});
        expect_good_checkpoints();
        ++killed;
      }
    }
    EXPECT_GT(killed, 2);
    expect_nothing_left();
  }
}

// A part of many writes, of which so many are there when the rank is killed: eight places, of which
// a commit tries one.
TEST_F(KilledSaveTest, Row4InTheMiddleOfALargeShard) {
  const std::string flags =
      "--restarts 1 --mesh dp=1 --set model.vocab=12301 --set model.hidden=224 --set "
      "model.layers=1 "
      "--set train.steps=2 --set train.global_batch=1 --set checkpoint.every=1 --set "
      "checkpoint.keep=2 --set checkpoint.async=";
  const Undisturbed whole = undisturbed(flags + "false");
  const std::string shard =
      folder_.path("out/checkpoints/step-00000002/data-0000-of-0001.safetensors");
  EXPECT_GT(std::filesystem::file_size(shard), size_t{8} * (8 << 20)) << "too few writes";
  for (const int write : share_of(std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}, 8)) {
    SCOPED_TRACE(write);
    const CommandResult result = train(fmt::format("save.write:rank=0,at={},act=kill", write),
                                       flags + (write % 2 == 0 ? "false" : "true"));
    ASSERT_EQ(result.code, 0) << result.err;
    expect_same_as(whole);
    expect_verdict({.rank = 0});
    EXPECT_TRUE(events("resume").empty()) << "half a checkpoint was read";
    EXPECT_EQ(events("restart").size(), 1U);
    expect_good_checkpoints();
    expect_nothing_left();
  }
}

// A save that is whole but for its name is gone on from, and gets its name when all have read it.
TEST_F(KilledSaveTest, Row5BetweenCommitAndTheNameOfTheFolder) {
  const Undisturbed whole = undisturbed(std::string(kFlags) + "false");
  bool adopted = false;
  // Renames are those of COMMIT, of the folder and of LATEST, in this order; then the second save.
  for (const int rename : {2, 5}) {
    SCOPED_TRACE(rename);
    const CommandResult result = train(fmt::format("save.rename:rank=0,at={},act=kill;"
                                                   "load:rank=1,generation=2,act=delay=300",
                                                   rename),
                                       std::string(kFlags) + "false");
    ASSERT_EQ(result.code, 0) << result.err;
    expect_same_as(whole);
    expect_good_checkpoints();
    adopted = adopted || result.err.find("after its last byte was finished") != std::string::npos;
  }
  EXPECT_TRUE(adopted);
}

}  // namespace
}  // namespace tessera::testing
