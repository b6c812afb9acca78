#include "train/directory/metrics_cut.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/testing/test_folder.h"

namespace tessera {
namespace {

using testing::read_file;
using testing::TestFolder;

TEST(MetricsCutTest, LaterStepsAreDropped) {
  const TestFolder folder;
  const std::string path = folder.write("metrics.jsonl",
                                        "{\"step\":1,\"loss\":3}\n"
                                        "what is this?\n"
                                        "{\"step\":2,\"loss\":2}\n"
                                        "{\"event\":\"nan\",\"step\":3}\n"
                                        "{\"step\":3,\"loss\":1}\n");
  const MetricsCut cut = drop_metrics_after(path, 2);
  EXPECT_EQ(cut.kept, 3);
  EXPECT_EQ(cut.dropped, 2);
  EXPECT_EQ(read_file(path), "{\"step\":1,\"loss\":3}\nwhat is this?\n{\"step\":2,\"loss\":2}\n");
  EXPECT_EQ(drop_metrics_after(path, 2).dropped, 0);
  EXPECT_EQ(drop_metrics_after(path, 0).kept, 1);
}

TEST(MetricsCutTest, ALineThatWasCutOffGoes) {
  const TestFolder folder;
  const std::string path = folder.write("metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n{\"ste");
  EXPECT_EQ(drop_metrics_after(path, 9).dropped, 1);
  EXPECT_EQ(read_file(path), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(MetricsCutTest, AFileThatStaysIsNotTouched) {
  const TestFolder folder;
  const std::string path = folder.write("metrics.jsonl", "{\"step\":1}\n");
  const auto before = std::filesystem::last_write_time(path);
  EXPECT_EQ(drop_metrics_after(path, 1).kept, 1);
  EXPECT_EQ(std::filesystem::last_write_time(path), before);
  EXPECT_EQ(drop_metrics_after(folder.path("none"), 1).kept, 0);
  EXPECT_FALSE(std::filesystem::exists(folder.path("none")));
}

}  // namespace
}  // namespace tessera
