#include "train/directory/run_directory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/testing/test_folder.h"

namespace tessera {
namespace {

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

}  // namespace
}  // namespace tessera
