#include "train/directory/run_directory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"
#include "train/directory/run_claim.h"

namespace tessera {
namespace {

using testing::message_of;
using testing::read_file;
using testing::TestFolder;

// As a disk that is full: no file of this process grows beyond `bytes`.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

TEST(RunDirectoryTest, AFullDiskCostsLinesAndLeavesWholeOnes) {
  const TestFolder folder;
  RunDirectory directory(folder.path("run"));
  EXPECT_TRUE(directory.append_metrics({{"step", 1}}));
  {
    const FullDisk disk(15);
    EXPECT_FALSE(directory.append_metrics({{"step", 2}}));
    EXPECT_FALSE(directory.append_metrics({{"step", 3}}));
  }
  EXPECT_EQ(read_file(directory.file("metrics.jsonl")), "{\"step\":1}\n");
  EXPECT_TRUE(directory.append_metrics({{"step", 4}})) << "there is room again";
  EXPECT_EQ(read_file(directory.file("metrics.jsonl")), "{\"step\":1}\n{\"step\":4}\n");
}

TEST(RunDirectoryTest, WhatWasRemovedIsMadeAgain) {
  const TestFolder folder;
  RunDirectory directory(folder.path("a/run"));
  EXPECT_TRUE(directory.append_metrics({{"step", 1}}));
  EXPECT_FALSE(directory.vanished());
  std::filesystem::remove_all(folder.path("a"));
  EXPECT_TRUE(directory.vanished());
  directory.make_again();
  EXPECT_FALSE(directory.vanished());
  EXPECT_TRUE(directory.append_metrics({{"step", 2}}));
  EXPECT_EQ(read_file(directory.file("metrics.jsonl")), "{\"step\":2}\n");
}

// The lock goes with the folder; the next run must not find the name free.
TEST(RunDirectoryTest, WhatIsMadeAgainIsLockedAgain) {
  const TestFolder folder;
  const ClaimedDirectory claim(folder.path("run"));
  {
    RunDirectory directory(claim.path());
    for (const std::string lost : {"", "/run.lock"}) {
      std::filesystem::remove_all(claim.path() + lost);
      EXPECT_FALSE(user_of_run_directory(claim.path()).has_value());
      EXPECT_TRUE(directory.vanished());
      EXPECT_EQ(directory.make_again(), lost.empty()) << "whether metrics are lost";
      EXPECT_TRUE(directory.is_ours());
      EXPECT_FALSE(directory.vanished());
      EXPECT_THROW((void)claim_run_directory({.path = claim.path()}), RunDirectoryInUse);
    }
  }
  EXPECT_FALSE(user_of_run_directory(claim.path()).has_value());
  EXPECT_FALSE(std::filesystem::exists(claim.path() + "/run.lock"));
}

TEST(RunDirectoryTest, AFolderThatComesBackIsOursAgain) {
  const TestFolder folder;
  const ClaimedDirectory claim(folder.path("run"));
  RunDirectory directory(claim.path());
  EXPECT_TRUE(directory.append_metrics({{"step", 1}}));
  std::filesystem::rename(claim.path(), folder.path("away"));
  EXPECT_TRUE(directory.make_again());
  std::filesystem::remove_all(claim.path());
  std::filesystem::rename(folder.path("away"), claim.path());
  EXPECT_TRUE(directory.vanished());
  EXPECT_FALSE(directory.make_again());
  EXPECT_TRUE(directory.is_ours());
  EXPECT_TRUE(directory.append_metrics({{"step", 3}}));
  EXPECT_EQ(read_file(directory.file("metrics.jsonl")), "{\"step\":1}\n{\"step\":3}\n");
}

TEST(RunDirectoryTest, AFolderThatBecameAnotherRunsIsLeftToIt) {
  const TestFolder folder;
  const ClaimedDirectory claim(folder.path("run"));
  RunDirectory directory(claim.path());
  std::filesystem::remove_all(claim.path());
  {
    const ClaimedDirectory other(folder.path("run"));
    RunDirectory others(other.path());
    EXPECT_TRUE(others.append_metrics({{"step", 7}}));
    EXPECT_TRUE(directory.vanished());
    EXPECT_THROW((void)directory.make_again(), RunDirectoryInUse);
    EXPECT_FALSE(directory.is_ours());
  }
  const std::string message = message_of<Error>([&] { (void)directory.make_again(); });
  EXPECT_NE(message.find("holds another run now (metrics.jsonl)"), std::string::npos) << message;
  EXPECT_FALSE(directory.is_ours());
  EXPECT_TRUE(directory.append_metrics({{"step", 8}}));
  EXPECT_EQ(read_file(claim.path() + "/metrics.jsonl"), "{\"step\":7}\n");
  std::filesystem::remove_all(claim.path());
  EXPECT_TRUE(directory.make_again());
  EXPECT_TRUE(directory.is_ours());
}

// As `sed -i` does, and programs that rotate logs.
TEST(RunDirectoryTest, MetricsInThePlaceOfOursAreContinued) {
  const TestFolder folder;
  const ClaimedDirectory claim(folder.path("run"));
  RunDirectory directory(claim.path());
  folder.write("new", "{\"step\":1}\n");
  std::filesystem::rename(folder.path("new"), directory.file("metrics.jsonl"));
  EXPECT_TRUE(directory.vanished());
  EXPECT_FALSE(directory.make_again());
  EXPECT_TRUE(directory.append_metrics({{"step", 2}}));
  EXPECT_EQ(read_file(directory.file("metrics.jsonl")), "{\"step\":1}\n{\"step\":2}\n");
  const std::string victim = folder.write("victim", "precious");
  std::filesystem::remove(directory.file("metrics.jsonl"));
  std::filesystem::create_symlink(victim, directory.file("metrics.jsonl"));
  EXPECT_THROW((void)directory.make_again(), Error);
  EXPECT_TRUE(directory.is_ours());
  EXPECT_EQ(read_file(victim), "precious");
}

}  // namespace
}  // namespace tessera
