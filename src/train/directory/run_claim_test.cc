#include "train/directory/run_claim.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/testing/message_of.h"
#include "base/testing/test_folder.h"
#include "train/directory/run_directory.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using testing::message_of;
using testing::read_file;
using testing::TestFolder;

// Runs go to "runs" of the folder at hand.
class RunClaimTest : public ::testing::Test {
 protected:
  RunClaimTest() : before_(fs::current_path()) { fs::current_path(folder_.path()); }
  ~RunClaimTest() override { fs::current_path(before_); }

  // A run that came to its end.
  void leave_run(const std::string& path, const std::string& weights = "trained") const {
    fs::create_directories(path);
    for (const std::string name : {"resolved.json", "metrics.jsonl", "config.json"}) {
      folder_.write(path + "/" + name, "{}\n");
    }
    folder_.write(path + "/model.safetensors", weights);
  }

  TestFolder folder_;

 private:
  fs::path before_;
};

TEST_F(RunClaimTest, ARunIsCalledAfterItsFile) {
  EXPECT_EQ(run_name_of("mine.toml"), "mine");
  EXPECT_EQ(run_name_of("a/b.c.toml"), "b.c");
  EXPECT_EQ(run_name_of("runs/mine/resolved.toml"), "mine");
  EXPECT_EQ(run_name_of("runs/mine/config.toml"), "mine");
  EXPECT_EQ(run_name_of("./config.toml"), "config");
  EXPECT_EQ(run_name_of(""), "run");
  EXPECT_EQ(run_name_of(".."), "run");
}

TEST_F(RunClaimTest, NamesOfOurOwnAreNumbered) {
  const RunDirectoryRequest request{.name = "mine"};
  EXPECT_EQ(claim_run_directory(request).path(), "runs/mine");
  EXPECT_FALSE(fs::exists("runs")) << "nothing was written, so nothing stays";
  leave_run("runs/mine");
  EXPECT_EQ(find_run_directory(request), "runs/mine-2");
  const ClaimedDirectory second = claim_run_directory(request);
  EXPECT_EQ(second.path(), "runs/mine-2");
  EXPECT_EQ(find_run_directory(request), "runs/mine-3") << "the second is in use";
  EXPECT_EQ(claim_run_directory(request).path(), "runs/mine-3");
  const RunDirectoryRequest first{.name = "mine", .overwrite = true};
  EXPECT_EQ(find_run_directory(first), "runs/mine");
  EXPECT_EQ(claim_run_directory(first).path(), "runs/mine");
}

TEST_F(RunClaimTest, ARunThatDidNoStepIsReplaced) {
  fs::create_directories("runs/mine");
  for (const std::string name : {"resolved.json", "config.toml", "plan.json"}) {
    folder_.write("runs/mine/" + name, "{}");
  }
  folder_.write("runs/mine/metrics.jsonl", "");
  EXPECT_EQ(claim_run_directory({.name = "mine"}).path(), "runs/mine");
  const RunDirectory directory("runs/mine");
  EXPECT_EQ(directory.former_run(), "");
}

TEST_F(RunClaimTest, ADirectoryThatWasAskedForMustBeFree) {
  leave_run("out");
  for (const bool dry : {true, false}) {
    const std::string message = message_of<ConfigError>([&] {
      if (dry) {
        (void)find_run_directory({.path = "out"});
      } else {
        (void)claim_run_directory({.path = "out"});
      }
    });
    EXPECT_EQ(message,
              "the run directory 'out' holds a run (model.safetensors): --overwrite moves it to "
              "'out/previous', or set another logging.run_dir");
  }
  const ClaimedDirectory held = claim_run_directory({.path = "out", .overwrite = true});
  EXPECT_THROW((void)claim_run_directory({.path = "out", .overwrite = true}), RunDirectoryInUse);
  EXPECT_THROW((void)find_run_directory({.path = "out", .overwrite = true}), RunDirectoryInUse);
  EXPECT_EQ(read_file("out/model.safetensors"), "trained");
}

// A config.toml in the folder of a project is somebody's run file.
TEST_F(RunClaimTest, FilesThatNoRunWroteAreNotReplaced) {
  for (const std::string name :
       {"config.toml", "plan.json", "config.json", "weights.safetensors"}) {
    const std::string path = "of-" + name;
    fs::create_directory(path);
    folder_.write(path + "/" + name, "mine");
    EXPECT_THROW((void)claim_run_directory({.path = path}), ConfigError) << name;
    EXPECT_EQ(read_file(path + "/" + name), "mine");
  }
}

TEST_F(RunClaimTest, ARunDoesNotMixWithCheckpointsOfAnother) {
  leave_run("out");
  fs::create_directories("out/checkpoints/step-00000012");
  folder_.write("out/checkpoints/step-00000012/COMMIT", "{}");
  for (const std::string path : {"out/checkpoints", "out/checkpoints/step-00000012"}) {
    for (const bool overwrite : {false, true}) {
      const RunDirectoryRequest request{.path = path, .overwrite = overwrite};
      EXPECT_NE(message_of([&] { (void)find_run_directory(request); }).find("holds checkpoints of"),
                std::string::npos);
      EXPECT_NE(message_of([&] { (void)claim_run_directory(request); }).find("another run"),
                std::string::npos);
    }
  }
  // A run may keep its own beside its files.
  fs::create_directories("out/step-00000012");
  EXPECT_EQ(find_run_directory({.path = "out", .overwrite = true}), "out");
}

TEST_F(RunClaimTest, TheRootOfAllFilesIsNoRunDirectory) {
  for (const std::string path : {"/", "//", "/tmp/.."}) {
    EXPECT_NE(message_of([&] { (void)find_run_directory({.path = path}); }).find("root of all"),
              std::string::npos)
        << path;
  }
}

TEST_F(RunClaimTest, ARunDoesNotWriteOverWhatItStartsFrom) {
  leave_run("out");
  fs::create_symlink("out", "same");
  for (const std::string source : {"out", "./out/", "same"}) {
    const std::string message = message_of<ConfigError>([&] {
      (void)claim_run_directory({.path = "out", .weights_from = source, .overwrite = true});
    });
    EXPECT_NE(message.find("is model.hf, which the run starts from"), std::string::npos) << message;
  }
}

TEST_F(RunClaimTest, LinksPipesAndFoldersUnderTheNamesOfARunAreRefused) {
  const std::string victim = folder_.write("victim", "precious");
  fs::create_directories("link");
  fs::create_symlink(victim, "link/metrics.jsonl");
  fs::create_directories("pipe");
  ASSERT_EQ(::mkfifo("pipe/metrics.jsonl", 0600), 0);
  fs::create_directories("folder/plan.json");
  for (const auto& [path, words] : {std::pair("link", "'link/metrics.jsonl' is a link"),
                                    std::pair("pipe", "'pipe/metrics.jsonl' is a named pipe"),
                                    std::pair("folder", "'folder/plan.json' is a folder")}) {
    const std::string message = message_of<ConfigError>(
        [&, p = path] { (void)claim_run_directory({.path = p, .overwrite = true}); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
  EXPECT_EQ(read_file(victim), "precious");
}

TEST_F(RunClaimTest, PlacesThatCannotBeWrittenAreFoundWithoutWriting) {
  folder_.write("file", "");
  EXPECT_THROW((void)find_run_directory({.path = "file/run"}), ConfigError);
  EXPECT_THROW((void)find_run_directory({.path = "file"}), ConfigError);
  EXPECT_EQ(find_run_directory({.path = "a/b/c"}), "a/b/c");
  EXPECT_FALSE(fs::exists("a"));
}

// However often a run is started over another, trained weights stay.
TEST_F(RunClaimTest, FormerRunsAreMovedWhole) {
  leave_run("out", "trained");
  {
    const RunDirectory second("out");
    EXPECT_EQ(second.former_run(), "out/previous");
    EXPECT_FALSE(fs::exists("out/config.json"));
    EXPECT_FALSE(fs::exists("out/model.safetensors"));
    EXPECT_EQ(read_file("out/metrics.jsonl"), "");
  }
  EXPECT_EQ(RunDirectory("out").former_run(), "") << "the second did no step";
  leave_run("out", "hardly trained");
  EXPECT_EQ(RunDirectory("out").former_run(), "out/previous-2");
  EXPECT_EQ(read_file("out/previous/model.safetensors"), "trained");
  EXPECT_EQ(read_file("out/previous-2/model.safetensors"), "hardly trained");
  EXPECT_TRUE(fs::exists("out/previous/config.json"));
}

TEST_F(RunClaimTest, FilesAreWrittenThroughNoLink) {
  const std::string victim = folder_.write("victim", "precious");
  RunDirectory directory("out");
  fs::create_symlink(victim, "out/plan.json.tmp");
  fs::create_symlink(victim, "out/plan.json");
  directory.write_text("plan.json", "{}");
  EXPECT_EQ(read_file(victim), "precious");
  EXPECT_EQ(read_file("out/plan.json"), "{}");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status("out/plan.json")));
}

TEST_F(RunClaimTest, HalfFilesOfAKilledRunAreRemoved) {
  fs::create_directory("out");
  const std::string half = "out/model.safetensors.0123456789abcdef.tmp";
  folder_.write(half, "half");
  folder_.write("out/notes.tmp", "mine");
  const RunDirectory directory("out");
  EXPECT_FALSE(fs::exists(half));
  EXPECT_TRUE(fs::exists("out/notes.tmp"));
}

}  // namespace
}  // namespace tessera
