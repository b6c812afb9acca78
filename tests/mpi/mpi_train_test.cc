// `mpirun tessera train`: recognised without a flag, the same bits as over threads, the plan holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "mpi_job.h"
#include "support/command.h"
#include "support/resume_table.h"

namespace tessera {
namespace {

using testing::read_file;
using testing::TestFolder;

using nlohmann::json;
using testing::JobResult;
using testing::words_of;

constexpr std::chrono::seconds kLongest{120};  // of a job on a busy machine

class MpiTrainTest : public ::testing::Test {
 protected:
  MpiTrainTest() : before_(std::filesystem::current_path()) {
    folder_.write("run.toml", testing::tiny_run_file());
    std::filesystem::current_path(folder_.path());  // mpirun's ranks begin where it was started
  }
  ~MpiTrainTest() override { std::filesystem::current_path(before_); }

  static JobResult train_over_mpi(int ranks, const std::string& arguments) {
    std::vector<std::string> command = words_of(TESSERA_MPI_LAUNCHER);
    for (const std::string& word : words_of(fmt::format("-n {} {} train run.toml -q --overwrite {}",
                                                        ranks, TESSERA_BINARY, arguments))) {
      command.push_back(word);
    }
    return testing::run_job(command);
  }
  [[nodiscard]] json read_json(const std::string& name) const {
    return json::parse(read_file(folder_.path(name)));
  }

  TestFolder folder_;

 private:
  std::filesystem::path before_;
};

size_t lines_with(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(word) != line.npos ? 1 : 0;
  return count;
}

TEST_F(MpiTrainTest, SameBitsAsOverThreads) {
  for (const auto& [ranks, arguments] :
       {std::pair(2, "--mesh fsdp=2,zero=3 --set train.dtype=bf16"), std::pair(4, "")}) {
    SCOPED_TRACE(arguments);
    const JobResult job = train_over_mpi(ranks, arguments);
    EXPECT_EQ(job.code, 0) << job.output;
    EXPECT_EQ(job.left_behind, 0);
    EXPECT_EQ(lines_with(job.output, "equal the plan"), 1U) << job.output;
    const json summary = read_json("out/summary.json");
    EXPECT_EQ(summary.at("backend"), "mpi");
    EXPECT_EQ(summary.at("ranks"), read_json("out/plan.json").at("ranks"));

    const auto threads = testing::tessera(
        folder_,
        fmt::format("train run.toml -q --overwrite --threads --set logging.run_dir=threads {}",
                    arguments));
    ASSERT_EQ(threads.code, 0) << threads.err;
    EXPECT_TRUE(read_file("out/model.safetensors") == read_file("threads/model.safetensors"));
    EXPECT_EQ(read_json("threads/plan.json"), read_json("out/plan.json"));
    EXPECT_EQ(read_json("threads/summary.json").at("final_loss"), summary.at("final_loss"));
  }
}

// mpirun hands SIGUSR1 on to its ranks.
TEST_F(MpiTrainTest, Row14APreemptedRunSavesAndGoesOn) {
  const std::string slow = "--set checkpoint.every=1000 --set train.steps=40";
  const std::string script = fmt::format(
      "TESSERA_FAULT=step.begin:act=delay=40 {} -n 4 {} train run.toml -q {} & job=$!\n"
      "until [ -s out/metrics.jsonl ]; do sleep 0.05; done; kill -USR1 $job; wait $job",
      TESSERA_MPI_LAUNCHER, TESSERA_BINARY, slow);
  const JobResult job = testing::run_job({"sh", "-c", script});
  EXPECT_EQ(job.code, 85) << job.output;
  EXPECT_EQ(lines_with(job.output, "goes on from its checkpoint"), 1U) << job.output;
  EXPECT_EQ(job.left_behind, 0);
  const auto again = testing::tessera(folder_, "train run.toml -q --threads --resume auto " + slow);
  ASSERT_EQ(again.code, 0) << again.err;
  const auto straight = testing::tessera(
      folder_, "train run.toml -q --threads --set logging.run_dir=straight " + slow);
  ASSERT_EQ(straight.code, 0) << straight.err;
  EXPECT_TRUE(read_file("out/model.safetensors") == read_file("straight/model.safetensors"));
}

// mpirun ends the job of a rank that is killed; the same command goes on.
TEST_F(MpiTrainTest, Row2AJobWhoseRankIsKilledGoesOnWithTheSameBits) {
  const std::string saves =
      "--set train.steps=6 --set checkpoint.every=2 --set checkpoint.async=false";
  for (const char* dtype : {"f32", "bf16"}) {
    SCOPED_TRACE(dtype);
    const std::string run = fmt::format(
        "{} -n 4 {} train run.toml -q --set logging.run_dir={} --set train.dtype={} {} --resume "
        "auto",
        TESSERA_MPI_LAUNCHER, TESSERA_BINARY, dtype, dtype, saves);
    const JobResult killed = testing::run_job(
        {"sh", "-c", "TESSERA_FAULT=step.backward:rank=2,step=4,act=kill exec " + run});
    EXPECT_NE(killed.code, 0) << killed.output;
    EXPECT_EQ(killed.left_behind, 0);
    const JobResult again = testing::run_job(words_of(run));
    ASSERT_EQ(again.code, 0) << again.output;
    EXPECT_EQ(lines_with(again.output, "goes on after step 2"), 1U) << again.output;
    const auto straight = testing::tessera(
        folder_, fmt::format("train run.toml -q --threads --set logging.run_dir=straight-{} "
                             "--set train.dtype={} {}",
                             dtype, dtype, saves));
    ASSERT_EQ(straight.code, 0) << straight.err;
    EXPECT_TRUE(read_file(fmt::format("{}/model.safetensors", dtype)) ==
                read_file(fmt::format("straight-{}/model.safetensors", dtype)));
  }
}

// The same on every kind of mesh and in every type, killed in a step that a seed draws.
TEST_F(MpiTrainTest, Row2OnEveryKindOfMeshInEveryType) {
  folder_.write("run.toml", testing::resume_run_file());
  const uint64_t seed = testing::resume_seed();
  const std::vector<testing::ResumeCase> cases = testing::resume_cases(seed, 2);
  fmt::print("TESSERA_RESUME_SEED={} draws these {} again\n", seed, cases.size());
  for (const testing::ResumeCase& one : cases) {
    SCOPED_TRACE(fmt::format("{}: {}, mpirun (TESSERA_RESUME_SEED={})", one.what, one.fault, seed));
    for (const char* old : {"out", "straight"}) std::filesystem::remove_all(folder_.path(old));
    const std::string run = fmt::format(
        "{} -n {} {} train run.toml -q --set logging.run_dir=out --resume auto --overwrite {}",
        TESSERA_MPI_LAUNCHER, one.ranks, TESSERA_BINARY, one.flags);
    const JobResult killed =
        testing::run_job({"sh", "-c", "TESSERA_FAULT=" + one.fault + " exec " + run}, kLongest);
    EXPECT_NE(killed.code, 0) << killed.output;
    EXPECT_EQ(killed.left_behind, 0);
    const JobResult again = testing::run_job(words_of(run), kLongest);
    ASSERT_EQ(again.code, 0) << again.output;
    const auto straight = testing::tessera(
        folder_, "train run.toml -q --threads --set logging.run_dir=straight " + one.flags);
    ASSERT_EQ(straight.code, 0) << straight.err;
    testing::expect_same_training(folder_, "out", "straight");
    testing::expect_resumed(folder_, "out", one);
  }
}

TEST_F(MpiTrainTest, DivergenceIsSaidOnce) {
  const JobResult job = train_over_mpi(4, "--inject nan:tensor=layers.1.q,step=2,rank=3");
  EXPECT_EQ(job.code, 4) << job.output;
  EXPECT_EQ(lines_with(job.output, "tessera: error:"), 1U) << job.output;
  EXPECT_EQ(lines_with(job.output,
                       "'layers.1.q' (linear, pass F, micro-batch 0), element 0 on "
                       "rank 3 (dp1 tp1)"),
            1U)
      << job.output;
  EXPECT_EQ(job.left_behind, 0);
}

TEST_F(MpiTrainTest, AWrongNumberOfRanksIsRefusedOnce) {
  const JobResult job = train_over_mpi(3, "");
  EXPECT_EQ(job.code, 2) << job.output;
  EXPECT_EQ(lines_with(job.output, "the mesh dp=2 x tp=2 needs 4 ranks but"), 1U) << job.output;
  EXPECT_FALSE(std::filesystem::exists("out"));
}

}  // namespace
}  // namespace tessera
