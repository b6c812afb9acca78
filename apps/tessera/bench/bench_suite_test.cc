#include "bench/bench_suite.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

std::string refusal_of(const BenchCommOptions& options) {
  try {
    (void)parse_bench_suite(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(BenchPlanTest, SizesGoUpInStepsOfFour) {
  EXPECT_EQ(parse_sizes("1K-256K"), (std::vector<int64_t>{1024, 4096, 16384, 65536, 262144}));
  EXPECT_EQ(parse_sizes("1K-5000"), (std::vector<int64_t>{1024, 4096}));
  EXPECT_EQ(parse_sizes("3M,7,1k-4k,4096"), (std::vector<int64_t>{7, 1024, 4096, 3 << 20}));
  EXPECT_EQ(parse_sizes("1G"), (std::vector<int64_t>{1 << 30}));
}

TEST(BenchPlanTest, RefusesOtherSizes) {
  for (const std::string text : {"", "x", "1T", "0", "-1", "4K-1K", "1K-", "1.5M", "1K,,2K",
                                 "99999999999999999999", "9999999G"}) {
    EXPECT_THROW((void)parse_sizes(text), ConfigError) << text;
  }
}

TEST(BenchPlanTest, RefusalsNameFlagValueAndChoices) {
  EXPECT_EQ(refusal_of({.op = "all_reduce,sing"}),
            "--op has 'sing': use all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, "
            "reduce, gather, scatter");
  EXPECT_EQ(refusal_of({.ranks = "2,0"}),
            "--ranks has '0': expected whole numbers from 1 to 1024, such as 2,4");
  EXPECT_EQ(refusal_of({.ranks = "2", .dtype = "i32", .reduce = "mean"}),
            "--reduce is mean and --dtype i32: integers have no mean; use sum, or a floating-point "
            "type");
  EXPECT_EQ(refusal_of({.op = "scatter", .ranks = "2", .algorithm = "ring"}),
            "--algo is ring, which scatter does not have on shm: use auto, direct, naive, tree "
            "(--algo list shows all)");
  EXPECT_EQ(refusal_of({.ranks = "2", .backend = "nccl", .algorithm = "ring"}),
            "--algo is ring, but nccl chooses alone: use auto");
  EXPECT_NE(refusal_of({.ranks = "2", .in_place = true, .out_of_place = true}), "");
  EXPECT_EQ(refusal_of({.op = "all_reduce", .ranks = "2", .backend = "mpi", .algorithm = "ring"}),
            "");
}

TEST(BenchPlanTest, OnlyAllReduceIsUsuallyInPlace) {
  const BenchSuite usual = parse_bench_suite({.ranks = "2"});
  EXPECT_TRUE(usual.cases(CollectiveOp::kAllReduce, 2).front().in_place);
  EXPECT_FALSE(usual.cases(CollectiveOp::kAllGather, 2).front().in_place);
  const BenchSuite in = parse_bench_suite({.ranks = "2", .in_place = true});
  EXPECT_TRUE(in.cases(CollectiveOp::kAllGather, 2).front().in_place);
  const BenchSuite out = parse_bench_suite({.ranks = "2", .out_of_place = true});
  EXPECT_FALSE(out.cases(CollectiveOp::kAllReduce, 2).front().in_place);
}

// Ranks that are processes get the plan as a command line.
TEST(BenchPlanTest, ArgumentsGiveTheSamePlan) {
  BenchCommOptions options;
  options.op = "all";
  options.ranks = "2,3";
  options.sizes = "1K-1M";
  options.backend = "local";
  options.algorithm = "direct";
  options.dtype = "bf16";
  options.reduce = "max";
  options.out_of_place = true;
  options.budget_s = 0.125;
  options.touch = true;
  const std::vector<std::string> words =
      parse_bench_suite(options).arguments(CollectiveOp::kBroadcast, 3);
  const std::vector<std::string> expected = {
      "bench",     "comm",  "--op",           "broadcast",
      "--ranks",   "3",     "--sizes",        "1024,4096,16384,65536,262144,1048576",
      "--backend", "local", "--algo",         "direct",
      "--dtype",   "bf16",  "--reduce",       "max",
      "--budget",  "0.125", "--out-of-place", "--touch"};
  EXPECT_EQ(words, expected);
}

}  // namespace
}  // namespace tessera
