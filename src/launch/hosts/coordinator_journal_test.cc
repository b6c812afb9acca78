#include "launch/hosts/coordinator_journal.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

using testing::TestFolder;

ExitCode code_of_reading(const TestFolder& folder) {
  try {
    (void)read_coordinator_state(folder.path("hosts.json"));
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kOk;
}

TEST(CoordinatorJournalTest, IsReadAsItWasWritten) {
  TestFolder folder;
  const std::string path = folder.path("hosts.json");
  EXPECT_FALSE(read_coordinator_state(path).has_value());
  write_coordinator_state(path, {.run = 0xfedcba9876543210, .generation = 2, .places = {0, 1}});
  write_coordinator_state(
      path, {.run = 0xfedcba9876543210, .generation = 3, .places = {0, 2}, .opened = true});
  const CoordinatorState state = read_coordinator_state(path).value();
  EXPECT_EQ(state.run, 0xfedcba9876543210);
  EXPECT_EQ(state.generation, 3U);
  EXPECT_EQ(state.places, (std::vector<int>{0, 2}));
  EXPECT_TRUE(state.opened);
  EXPECT_EQ(state.failures.used, 0);
}

TEST(CoordinatorJournalTest, KeepsWhatHasFailed) {
  TestFolder folder;
  const std::string path = folder.path("hosts.json");
  CoordinatorState written{.run = 1, .generation = 2};
  written.failures = {.used = 1,
                      .losses = {{.rank = 3,
                                  .exit = {.code = 0, .signal = 9},
                                  .section = RunSection::kStep,
                                  .step = 7,
                                  .curable = true}}};
  write_coordinator_state(path, written);
  const PastFailures read = read_coordinator_state(path).value().failures;
  EXPECT_EQ(read.used, 1);
  ASSERT_EQ(read.losses.size(), 1U);
  EXPECT_EQ(read.losses[0].rank, 3);
  EXPECT_EQ(read.losses[0].exit.signal, 9);
  EXPECT_EQ(read.losses[0].section, RunSection::kStep);
  EXPECT_EQ(read.losses[0].step, 7);
  EXPECT_TRUE(read.losses[0].curable);
}

TEST(CoordinatorJournalTest, DamageAndNewerFormatsHaveTheirExitCodes) {
  TestFolder folder;
  for (const std::string text :
       {"", "{}", "no json", R"({"format":1,"run":"x","generation":1,"places":[],"opened":true})",
        R"({"format":1,"run":"5","generation":-1.5,"places":3,"opened":true})",
        R"({"format":1,"run":"5","generation":1,"places":[],"opened":true,"failures":{}})",
        R"({"format":1,"run":"5","generation":1,"places":[],"opened":true,"failures":
            {"restarts_used":1,"losses":[{"rank":0,"code":1,"signal":0,"section":99,"step":1,
             "curable":true}]}})"}) {
    folder.write("hosts.json", text);
    EXPECT_EQ(code_of_reading(folder), ExitCode::kCorrupt) << text;
  }
  folder.write("hosts.json", R"({"format":2})");
  EXPECT_EQ(code_of_reading(folder), ExitCode::kVersion);
}

TEST(CoordinatorJournalTest, AFolderThatIsGoneIsAnErrorOfTheDisk) {
  TestFolder folder;
  EXPECT_THROW(write_coordinator_state(folder.path("nowhere/hosts.json"), {}), IoError);
}

}  // namespace
}  // namespace tessera
