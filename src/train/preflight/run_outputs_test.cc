#include "train/preflight/run_outputs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

using testing::message_of;

RunSpec small_run() {
  RunSpec spec = parse_run_file(
      "[model]\nlayers = 1\nhidden = 8\nffn = 16\nheads = 2\nvocab = 256\n", "run.toml", {}, {});
  resolve(spec);
  return spec;
}

TEST(RunOutputsTest, AFullDiskIsNamedWithBothNumbers) {
  const RunOutput output{.weights_bytes = 11'874'304, .log_bytes = 4096};
  FolderState disk{.nearest = "/data", .free_bytes = int64_t{3} << 20};
  EXPECT_EQ(disk_shortage("runs/a", disk, output),
            "the disk of 'runs/a' has 3.0 MiB free, but the run writes about 11.3 MiB: weights of "
            "11,874,304 bytes and 4.0 KiB of logs; free some of it or set logging.run_dir");
  disk.free_bytes = output.weights_bytes + output.log_bytes;
  EXPECT_EQ(disk_shortage("runs/a", disk, output), "");
  --disk.free_bytes;
  EXPECT_NE(disk_shortage("runs/a", disk, output), "");
}

TEST(RunOutputsTest, LogsGrowWithTheSteps) {
  RunSpec spec = small_run();
  spec.train.steps = 1;
  const int64_t few = output_of(spec).log_bytes;
  spec.train.steps = 100'000;
  EXPECT_GT(output_of(spec).log_bytes, few + 10'000'000);
  spec.logging.every = 1000;
  EXPECT_LT(output_of(spec).log_bytes, few + 100'000);
}

TEST(RunOutputsTest, FindsTheNearestFolderThatExists) {
  const testing::TestFolder folder;
  const FolderState state = look_at_folder(folder.path("a/b/c"));
  EXPECT_EQ(state.nearest, folder.path());
  EXPECT_TRUE(state.is_folder && state.writable);
  EXPECT_GT(state.free_bytes, 0);
  require_writable("a/b/c", state, "logging.run_dir");
}

TEST(RunOutputsTest, AFileOnTheWayIsNamed) {
  const testing::TestFolder folder;
  const std::string file = folder.write("file", "x");
  const std::string path = file + "/runs";
  EXPECT_EQ(message_of<ConfigError>(
                [&] { require_writable(path, look_at_folder(path), "logging.run_dir"); }),
            "cannot create the folder '" + path + "': '" + file +
                "' is not a folder; set logging.run_dir");
}

TEST(RunOutputsTest, AFolderOfOthersIsNamed) {
  const FolderState state{.nearest = "/others", .writable = false};
  EXPECT_EQ(message_of<ConfigError>([&] { require_writable("/others/x", state, "--log-dir"); }),
            "cannot write in the folder '/others/x': '/others' is not writable; set --log-dir");
}

}  // namespace
}  // namespace tessera
