// `tessera bench comm` with ranks that are processes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "comm/mpi/mpi_world.h"
#include "support/command.h"

namespace tessera {
namespace {

using testing::TestFolder;

using nlohmann::json;
using testing::CommandResult;

constexpr const char* kTiny = " --sizes 64,1K,16K --budget 0";

class BenchCommTest : public ::testing::Test {
 protected:
  CommandResult bench(const std::string& flags) {
    return testing::tessera(folder_, "bench comm " + flags);
  }
  TestFolder folder_;
};

void expect_sweep(const json& sweep, const std::string& op, int ranks) {
  EXPECT_EQ(sweep.at("op"), op);
  EXPECT_EQ(sweep.at("ranks"), ranks);
  ASSERT_EQ(sweep.at("rows").size(), 3U);
  for (const json& row : sweep.at("rows")) {
    EXPECT_EQ(row.at("wrong"), 0);
    EXPECT_GT(row.at("seconds").get<double>(), 0);
    EXPECT_GT(row.at("busbw_bytes_per_s").get<double>(), 0);
  }
  EXPECT_EQ(sweep.at("rows")[2].at("bytes").get<int>() / 1000, 16);
}

TEST_F(BenchCommTest, EveryOpBetweenProcesses) {
  const CommandResult result = bench("--ranks 2,3 --json" + std::string(kTiny));
  ASSERT_EQ(result.code, 0) << result.err;
  const json report = result.json();
  EXPECT_EQ(report.at("schema_version"), 1);
  EXPECT_EQ(report.at("backend"), "shm");
  EXPECT_EQ(report.at("wrong"), 0);
  const std::vector<std::string> ops = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                        "all_to_all", "reduce",         "gather",     "scatter"};
  ASSERT_EQ(report.at("sweeps").size(), 2 * ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    expect_sweep(report.at("sweeps")[i], ops[i], 2);
    expect_sweep(report.at("sweeps")[ops.size() + i], ops[i], 3);
  }
}

TEST_F(BenchCommTest, RowsForComparisons) {
  const CommandResult result = bench("--op broadcast --ranks 2 --touch --tsv" + std::string(kTiny));
  ASSERT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    EXPECT_TRUE(line.starts_with("own+touch\tbroadcast\t2\t")) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), '\t'), 6) << line;
  }
  EXPECT_EQ(rows, 3);
}

TEST_F(BenchCommTest, WrongResultsFailTheCommand) {
  for (const std::string backend : {"shm", "local"}) {
    const CommandResult result =
        bench("--op all_gather --ranks 2 --corrupt --backend " + backend + kTiny);
    EXPECT_EQ(result.code, 1) << backend;
    EXPECT_EQ(result.err, "tessera: error: 3 elements of the results are wrong\n");
    EXPECT_NE(result.out.find("all_gather, 2 ranks"), std::string::npos) << result.out;
  }
}

TEST_F(BenchCommTest, ARankThatCannotGoOnFailsTheCommand) {
  const CommandResult result =
      bench("--op all_reduce --ranks 2 --algo one_shot --sizes 1M --budget 0");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("one_shot takes at most"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "");
}

TEST_F(BenchCommTest, MpiStartsItsOwnRanks) {
  if (!mpi_available()) GTEST_SKIP() << "built without MPI";
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  const CommandResult result =
      bench("--op all_reduce --ranks 3 --backend mpi --algo ring --json" + std::string(kTiny));
  ASSERT_EQ(result.code, 0) << result.err;
  expect_sweep(result.json().at("sweeps")[0], "all_reduce", 3);
}

}  // namespace
}  // namespace tessera
