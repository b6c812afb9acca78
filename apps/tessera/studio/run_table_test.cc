#include "studio/run_table.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "studio/run_files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class RunTableTest : public ::testing::Test {
 protected:
  void make_run(const std::string& name) {
    fs::create_directories(folder_.path(name));
    folder_.write(name + "/metrics.jsonl", "{\"step\":1}\n");
  }
  testing::TestFolder folder_;
};

TEST_F(RunTableTest, ListsRunsAndFoldersOfRuns) {
  make_run("runs/b");
  make_run("runs/a");
  fs::create_directories(folder_.path("runs/empty"));
  make_run("other");
  const RunTable table({folder_.path("runs"), folder_.path("other")});
  const auto runs = table.list();
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].id, "a");
  EXPECT_EQ(runs[1].id, "b");
  EXPECT_EQ(runs[2].id, "other");
  make_run("runs/c");  // is seen at the next look
  EXPECT_TRUE(table.find("c").has_value());
}

TEST_F(RunTableTest, NothingButARunHasAnId) {
  make_run("runs/a");
  make_run("secret");
  const RunTable table({folder_.path("runs")});
  for (const char* id :
       {"", ".", "..", "../secret", "a/", "a/../../secret", "runs", "secret", "metrics.jsonl"}) {
    EXPECT_FALSE(table.find(id).has_value()) << id;
  }
}

TEST_F(RunTableTest, HostileNamesGetAnIdThatALinkCanHold) {
  const std::string hostile = "<img src=x onerror=alert(1)> \x1b[31m\xff";
  make_run("runs/" + hostile);
  make_run("runs/...");
  const RunTable table({folder_.path("runs")});
  for (const RunEntry& run : table.list()) {
    EXPECT_EQ(run.id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789._-"),
              std::string::npos)
        << run.id;
    EXPECT_NE(run.id.find_first_not_of('.'), std::string::npos);
    EXPECT_EQ(run.name.find('\x1b'), std::string::npos);
    EXPECT_EQ(table.find(run.id)->path, run.path);
  }
}

TEST_F(RunTableTest, RunsOfOneNameAreToldApart) {
  make_run("x/demo");
  make_run("y/demo");
  const RunTable table({folder_.path("x"), folder_.path("y")});
  const auto runs = table.list();
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].id, "demo");
  EXPECT_TRUE(runs[1].id.starts_with("demo-"));
  EXPECT_EQ(table.list()[1].id, runs[1].id);
  // The same folder twice is one run.
  EXPECT_EQ(RunTable({folder_.path("x"), folder_.path("x/demo")}).list().size(), 1U);
}

TEST_F(RunTableTest, NoLinkLeadsOut) {
  make_run("secret");
  make_run("runs/a");
  fs::create_directory_symlink(folder_.path("secret"), folder_.path("runs/link"));
  fs::create_directory_symlink(folder_.path("runs/a"), folder_.path("runs/inside"));
  const RunTable table({folder_.path("runs")});
  ASSERT_EQ(table.list().size(), 1U);
  EXPECT_EQ(table.list()[0].id, "a");
  // Nor does a file of a run.
  folder_.write("password", "secret");
  fs::create_symlink(folder_.path("password"), folder_.path("runs/a/plan.json"));
  fs::create_directory(folder_.path("runs/a/summary.json"));
  EXPECT_FALSE(RunFile(folder_.path("runs/a"), "plan.json").valid());
  EXPECT_FALSE(RunFile(folder_.path("runs/a"), "summary.json").valid());
  EXPECT_TRUE(RunFile(folder_.path("runs/a"), "metrics.jsonl").valid());
}

TEST_F(RunTableTest, SaysWhatIsNoFolder) {
  EXPECT_THROW(RunTable({folder_.path("nowhere")}), ConfigError);
  EXPECT_TRUE(RunTable::of_default(folder_.path("nowhere")).list().empty());
}

}  // namespace
}  // namespace tessera
