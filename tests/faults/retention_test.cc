// Row 7 of the matrix of faults: a rank that is killed while older checkpoints are removed.
#include <random>

#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

class RetentionTest : public FaultTest {
 protected:
  // A save after every step, of which two are kept: from the third on one is removed each time.
  static constexpr const char* kFlags =
      "--restarts 1 --set train.steps=4 --set checkpoint.every=1 --set checkpoint.keep=2";
  // Folders that are there, each of which must be whole.
  [[nodiscard]] size_t saves() {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path("out/checkpoints"))) {
      if (!entry.is_directory()) continue;
      ++count;
      const CommandResult verified = run("checkpoint verify " + entry.path().string());
      EXPECT_EQ(verified.code, 0) << verified.err;
    }
    return count;
  }
};

TEST_F(RetentionTest, Row7KilledWhileOlderSavesAreRemoved) {
  const Undisturbed whole = undisturbed(kFlags);
  EXPECT_EQ(saves(), 2U);
  std::random_device random;
  // Rank 0 commits and removes. Removals are among the changes of the third and fourth save.
  constexpr int kStride = 11;
  int killed = 0;
  for (int at = 30 + static_cast<int>(random() % kStride);; at += kStride) {
    SCOPED_TRACE(at);
    const CommandResult result =
        train(fmt::format("save.change:rank=0,at={},act=kill", at), kFlags);
    ASSERT_EQ(result.code, 0) << result.err;
    expect_same_as(whole);
    expect_good_checkpoints();
    // What was half removed is collected. After the last save nothing is saved again, and so
    // nothing removed: what had not been begun stays.
    const size_t left = saves();
    EXPECT_GE(left, 2U);
    EXPECT_LE(left, 3U);
    if (events("verdict").empty()) break;  // it made no more changes
    ++killed;
  }
  EXPECT_GT(killed, 2);
  expect_nothing_left();
}

}  // namespace
}  // namespace tessera::testing
