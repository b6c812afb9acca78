// Jobs under mpirun in which one rank fails: everyone learns why, in bounded time, and nothing is
// left running.
#include <gtest/gtest.h>

#include <iterator>
#include <regex>
#include <sstream>

#include "mpi_job.h"

namespace tessera {
namespace {

using testing::JobResult;

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

JobResult run_case(const std::string& name) {
  std::vector<std::string> command = words(TESSERA_MPI_LAUNCHER);
  for (const char* word : {"-n", "3", TESSERA_MPI_FAILING_RANKS}) command.emplace_back(word);
  command.push_back(name);
  return testing::run_job(command);
}

void expect_bounded(const JobResult& job) {
  EXPECT_NE(job.code, -1) << "mpirun hangs";
  EXPECT_NE(job.code, 0) << job.output;
  EXPECT_EQ(job.left_behind, 0) << job.output;
  EXPECT_LT(job.seconds, 20);
}

void expect_said(const JobResult& job, const std::string& pattern) {
  EXPECT_TRUE(std::regex_search(job.output, std::regex(pattern))) << "no '" << pattern << "' in:\n"
                                                                  << job.output;
}

// Which two ranks find out is a matter of time.
TEST(MpiFailureTest, DifferentOpsAreNamedOnEveryRank) {
  const JobResult job = run_case("other_op");
  expect_bounded(job);
  for (const std::string rank : {"rank 0: ", "rank 1: ", "rank 2: "}) {
    expect_said(job, rank + ".*rank 1 called all_gather\\(f32, 96.*\\) #2");
    expect_said(job, rank + ".*rank [02] called all_reduce\\(f32, 96.*\\) #2");
  }
}

TEST(MpiFailureTest, DifferentCountsAreNamedOnEveryRank) {
  const JobResult job = run_case("other_count");
  expect_bounded(job);
  for (const std::string rank : {"rank 0: ", "rank 1: ", "rank 2: "}) {
    expect_said(job, rank + ".*rank 1 called all_reduce\\(f32, 95\\) #2");
    expect_said(job, rank + ".*rank [02] called all_reduce\\(f32, 96\\) #2");
  }
}

TEST(MpiFailureTest, TheMissingRankIsNamed) {
  for (const char* name : {"missing", "missing_large"}) {
    const JobResult job = run_case(name);
    expect_bounded(job);
    expect_said(job, "rank 0: .*rank 1 \\(.*pid [0-9]+ on .*\\)");
    expect_said(job, "rank 2: .*rank 1 \\(.*pid [0-9]+ on .*\\)");
  }
}

TEST(MpiFailureTest, AStoppedRankIsNamed) {
  const JobResult job = run_case("stopped");
  expect_bounded(job);
  expect_said(job, "rank 0: .*rank 1 \\(.*pid [0-9]+ on .*\\)");
  expect_said(job, "rank 2: .*rank 1 \\(.*pid [0-9]+ on .*\\)");
}

TEST(MpiFailureTest, AnExceptionReachesEveryRank) {
  const JobResult job = run_case("throws");
  expect_bounded(job);
  expect_said(job, "rank 0: .*rank 1: the disk is full");
  expect_said(job, "rank 1: the disk is full");
  expect_said(job, "rank 2: .*rank 1: the disk is full");
}

TEST(MpiFailureTest, ARankThatLeavesIsNamed) {
  const JobResult job = run_case("leaves");
  expect_bounded(job);
  expect_said(job, "rank 0: .*rank 1.* left");
  expect_said(job, "rank 2: .*rank 1.* left");
}

// Here the launcher is the first to know, and ends the job.
TEST(MpiFailureTest, ADeadRankEndsTheJob) {
  for (const char* name : {"killed", "killed_large"}) {
    const JobResult job = run_case(name);
    expect_bounded(job);
    expect_said(job, "signal 9|Killed");
  }
  expect_bounded(run_case("exits_with_3"));
  expect_bounded(run_case("exits"));
}

TEST(MpiFailureTest, ARankThatDoesNotStartEndsTheJob) {
  const JobResult job = run_case("does_not_start");
  expect_bounded(job);
  expect_said(job, "MPI did not start within 1.000 s");
}

}  // namespace
}  // namespace tessera
