// Rows 15, 16 and 21 of the matrix of faults: disks that are full, refuse, or are slow. A run loses
// the checkpoint at hand and nothing else.
#include <sys/mount.h>
#include <unistd.h>

#include "base/testing/share.h"
#include "checkpoint/store/saves.h"
#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

// A file system of its own at a folder, for as long as one of these lives.
class SmallDisk {
 public:
  SmallDisk(std::string path, const std::string& options) : path_(std::move(path)) {
    fs::create_directories(path_);
    mounted_ = ::mount("tessera-test", path_.c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  bool make_read_only() {
    return ::mount("tessera-test", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0;
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

class DiskTest : public FaultTest {
 protected:
  static constexpr const char* kEveryStep = "--set checkpoint.every=1 --set checkpoint.async=";

  [[nodiscard]] std::vector<int64_t> steps_of(const std::string& event) const {
    std::vector<int64_t> steps;
    for (const nlohmann::json& one : events(event)) {
      steps.push_back(one.at("step").get<int64_t>());
    }
    return steps;
  }
  // I2 and I3; the checkpoints may lie somewhere else.
  void expect_same_curve(const CommandResult& result) {
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_TRUE(read_file(folder_.path("out/model.safetensors")) == undisturbed().weights);
    EXPECT_EQ(read_metrics(folder_.path("out/metrics.jsonl")).size(), size_t{kSteps});
  }
  void expect_every_one_good(const std::string& dir) {
    for (const StoredSave& save : list_saves(*real_files(folder_.path(dir)))) {
      EXPECT_TRUE(save.committed) << save.folder;
      const std::string path = dir + "/" + save.folder;
      EXPECT_EQ(run("checkpoint verify --deep " + path).code, 0) << path;
    }
  }
  // What the files of one checkpoint take.
  int64_t checkpoint_bytes() {
    EXPECT_EQ(train("", "--threads --set checkpoint.every=100").code, 0);
    int64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path("out/checkpoints"))) {
      if (entry.is_regular_file())
        bytes += static_cast<int64_t>((entry.file_size() + 4095) / 4096 * 4096);
    }
    return bytes;
  }
};

TEST_F(DiskTest, Row15ADiskThatIsFull) {
  const int64_t bytes = checkpoint_bytes();
  for (const std::string async : {"false", "true"}) {
    SCOPED_TRACE(async);
    // Room for one and a half.
    const SmallDisk disk(folder_.path("small"), fmt::format("size={}", bytes * 3 / 2));
    if (!disk.mounted()) GTEST_SKIP() << "no right to mount a file system";
    const CommandResult result =
        train("", kEveryStep + async + " --set checkpoint.keep=2 --set checkpoint.dir=small");
    expect_same_curve(result);
    ASSERT_FALSE(steps_of("save failed").empty());
    EXPECT_NE(result.err.find("No space left on device"), std::string::npos) << result.err;
    EXPECT_EQ(steps_of("save"), std::vector<int64_t>{1});
    expect_every_one_good("small");
    EXPECT_EQ(list_saves(*real_files(folder_.path("small"))).size(), 1U);
  }
}

TEST_F(DiskTest, Row15NoInodes) {
  const SmallDisk disk(folder_.path("small"), "nr_inodes=14");
  if (!disk.mounted()) GTEST_SKIP() << "no right to mount a file system";
  const CommandResult result =
      train("", std::string(kEveryStep) + "true --set checkpoint.dir=small");
  expect_same_curve(result);
  EXPECT_FALSE(steps_of("save failed").empty());
  EXPECT_FALSE(steps_of("save").empty());
  expect_every_one_good("small");
}

TEST_F(DiskTest, Row15AFolderThatBecomesReadOnly) {
  SmallDisk disk(folder_.path("small"), "size=4m");
  if (!disk.mounted()) GTEST_SKIP() << "no right to mount a file system";
  fs::remove_all(folder_.path("out"));
  Command command(folder_,
                  words_of(std::string("train run.toml -q --set logging.run_dir=out "
                                       "--set checkpoint.dir=small ") +
                           kEveryStep + "false"),
                  with_fault("step.begin:act=delay=100"));
  ASSERT_TRUE(wait_until([&] { return fs::exists(folder_.path("small/step-00000001/COMMIT")); }));
  // Refused while a file is being written.
  ASSERT_TRUE(wait_until([&] { return disk.make_read_only(); }));
  const CommandResult result = command.finish();
  expect_same_curve(result);
  EXPECT_FALSE(steps_of("save failed").empty());
  EXPECT_NE(result.err.find("Read-only file system"), std::string::npos) << result.err;
  expect_every_one_good("small");
  // A run that begins there is told before its first step.
  const CommandResult refused = run(
      "train run.toml -q --threads --set logging.run_dir=next --set checkpoint.dir=small/inside");
  EXPECT_EQ(refused.code, 74) << refused.err;
  EXPECT_TRUE(read_metrics(folder_.path("next/metrics.jsonl")).empty());
}

// The limit of a process on the size of its files: of the weights at the end it is far away.
TEST_F(DiskTest, Row15AFileThatMayNotGrow) {
  ASSERT_EQ(train("", "--threads --mesh dp=1").code, 0);
  const auto weights = static_cast<int64_t>(fs::file_size(folder_.path("out/model.safetensors")));
  fs::remove_all(folder_.path("out"));
  const std::string line = fmt::format(
      "ulimit -f {}; exec {} train run.toml -q --threads --mesh dp=1 --set logging.run_dir=out "
      "--set checkpoint.every=1",
      weights * 3 / 2 / 1024, TESSERA_BINARY);
  CommandOptions shell;
  shell.program = "/bin/bash";
  Command command(folder_, {"-c", line}, shell);
  const CommandResult result = command.finish();
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read_metrics(folder_.path("out/metrics.jsonl")).size(), size_t{kSteps});
  EXPECT_TRUE(steps_of("save").empty());
  EXPECT_EQ(steps_of("save failed").size(), size_t{kSteps});
  EXPECT_NE(result.err.find("File too large"), std::string::npos) << result.err;
}

// At each write, each with its own error; every other one here, from another one on each time.
TEST_F(DiskTest, Row15AnErrorAtEveryWrite) {
  int failed = 0;
  const std::vector<std::string> errors = {"ENOSPC", "EIO", "EROFS"};
  for (const std::string async : {"false", "true"}) {
    for (const std::string& error : testing::share_of(errors, 3)) {
      for (const int rank : {0, 1}) {
        for (int at = 1 + static_cast<int>(static_cast<unsigned>(::getpid()) % 5);; at += 5) {
          SCOPED_TRACE(fmt::format("async {} {} rank {} at {}", async, error, rank, at));
          const CommandResult result = train(
              fmt::format("save.change:rank={},at={},act=errno={}", rank, at, error),
              "--threads --set train.steps=4 --set checkpoint.every=2 --set checkpoint.async=" +
                  async);
          ASSERT_EQ(result.code, 0) << result.err;
          expect_good_checkpoints();
          const bool told = result.err.find("no checkpoint of step ") != std::string::npos ||
                            result.err.find("old checkpoints stay") != std::string::npos;
          if (!told) break;
          EXPECT_LE(events("save failed").size(), 1U);
          EXPECT_EQ(steps_of("save").size() + steps_of("save failed").size(), 2U);
          ++failed;
        }
      }
    }
  }
  EXPECT_GT(failed, testing::tries_all() ? 6 : 2);
}

// Not queued: what is written is never more than one behind.
TEST_F(DiskTest, Row16ASlowDiskCostsSavesAndNoSteps) {
  const CommandResult result =
      train("save.write:act=delay=250;step.begin:act=delay=20", kEveryStep + std::string("true"));
  expect_same_curve(result);
  expect_good_checkpoints();
  const std::vector<int64_t> skipped = steps_of("save skipped");
  EXPECT_GE(skipped.size(), 2U);
  EXPECT_TRUE(steps_of("save failed").empty());
  EXPECT_EQ(steps_of("save").back(), kSteps);
  for (const nlohmann::json& one : events("save skipped")) {
    EXPECT_NE(one.at("reason").get<std::string>().find("is still being written"),
              std::string::npos);
  }
  // While one save was written, steps were done: as many lines of metrics lie within its time.
  const std::vector<nlohmann::json> metrics = read_metrics(folder_.path("out/metrics.jsonl"));
  const nlohmann::json first = events("save").front();
  const auto end = first.at("time").get<double>();
  const double begin = end - first.at("seconds").get<double>();
  const auto beside =
      std::count_if(metrics.begin(), metrics.end(), [&](const nlohmann::json& line) {
        const auto time = line.at("time").get<double>();
        return time > begin && time < end;
      });
  EXPECT_GE(beside, 2);
  // Its disk needs seconds; steps have waited for the copies alone, and at the end for the last.
  EXPECT_EQ(skipped.size() + steps_of("save").size(), size_t{kSteps});
}

// The weights change while the copy is written, by whole steps.
TEST_F(DiskTest, Row21ACheckpointHoldsWhatWasThereWhenItWasAskedFor) {
  ASSERT_EQ(train("", "--set checkpoint.every=2 --set checkpoint.keep=9").code, 0);
  fs::rename(folder_.path("out/checkpoints"), folder_.path("waited"));
  const CommandResult result =
      train("save.write:act=delay=100;step.begin:act=delay=20",
            "--set checkpoint.every=2 --set checkpoint.keep=9 --set checkpoint.async=true");
  ASSERT_EQ(result.code, 0) << result.err;
  const std::vector<int64_t> saved = steps_of("save");
  ASSERT_FALSE(saved.empty());
  for (const int64_t step : saved) {
    const std::string name = fmt::format("step-{:08}", step);
    const CommandResult same = run("checkpoint diff waited/" + name + " out/checkpoints/" + name);
    EXPECT_EQ(same.code, 0) << same.out << same.err;
  }
  // A control that the comparison can fail.
  EXPECT_EQ(run("checkpoint diff waited/step-00000002 waited/step-00000004").code, 1);
}

}  // namespace
}  // namespace tessera::testing
