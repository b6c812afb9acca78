#include "bench/bench_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace tessera {
namespace {

SweepReport sample_report(const BenchSuite& plan) {
  SweepReport report;
  report.op = CollectiveOp::kAllReduce;
  report.ranks = 2;
  report.cases = plan.cases(report.op, report.ranks);
  report.rows = {{.index = 0, .seconds = 2e-6, .fastest_s = 1e-6, .slowest_s = 3e-6},
                 {.index = 1, .seconds = 8.0, .fastest_s = 7.0, .slowest_s = 9.0, .wrong = 3}};
  report.limit = {.before = 30e9, .after = 34e9};
  return report;
}

// The second size is larger than any cache.
BenchSuite sample_plan() {
  return parse_bench_suite({.op = "all_reduce", .ranks = "2", .sizes = "1K,64G"});
}

TEST(BenchReportTest, ColumnsAreThoseOfNcclTestsAndTheLimit) {
  const BenchSuite plan = sample_plan();
  EXPECT_EQ(
      sweep_table(plan, sample_report(plan)),
      "# all_reduce, 2 ranks: processes over shared memory (shm), in place, algorithm auto\n"
      "# memory limit: 30.0 GB/s before, 34.0 GB/s after (arrays: 2 read, 2 written, in "
      "place)\n"
      "#       size        count   type  redop  root      time us  algbw GB/s  busbw GB/s  #wrong"
      "     limit us  of limit\n"
      "        1024          256    f32    sum    -1         2.00        0.51        0.51       0"
      "            -         -\n"
      " 68719476736  17179869184    f32    sum    -1   8000000.00        8.59        8.59       3"
      "   8589934.59      1.07\n");
}

TEST(BenchReportTest, LeavesOutWhatMattersLeastOnANarrowTerminal) {
  const BenchSuite plan = sample_plan();
  const SweepReport report = sample_report(plan);
  for (const size_t columns : {30U, 60U, 80U, 112U}) {
    std::istringstream lines(sweep_table(plan, report, columns));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), columns) << line;
  }
  const std::string narrow = sweep_table(plan, report, 60);
  EXPECT_NE(narrow.find("#       size      time us  algbw GB/s  busbw GB/s  #wrong\n"),
            std::string::npos)
      << narrow;
  EXPECT_EQ(sweep_table(plan, report, 300), sweep_table(plan, report));
}

TEST(BenchReportTest, RowsForScripts) {
  BenchSuite plan = sample_plan();
  EXPECT_EQ(sweep_tsv(plan, sample_report(plan)),
            "own\tall_reduce\t2\t1024\t2.00\t0.512\t0.512\n"
            "own\tall_reduce\t2\t68719476736\t8000000.00\t8.590\t8.590\n");
  plan.sweep.touch = true;
  EXPECT_TRUE(sweep_tsv(plan, sample_report(plan)).starts_with("own+touch\t"));
}

TEST(BenchReportTest, JsonHoldsWhatTheTableShows) {
  const BenchSuite plan = sample_plan();
  const nlohmann::ordered_json json = sweep_json(sample_report(plan));
  EXPECT_EQ(json.at("op"), "all_reduce");
  EXPECT_EQ(json.at("limit").at("before_bytes_per_s"), 30e9);
  EXPECT_EQ(json.at("rows").size(), 2U);
  EXPECT_TRUE(json.at("rows")[0].at("of_limit").is_null()) << "it fits in a cache";
  EXPECT_NEAR(json.at("rows")[1].at("of_limit").get<double>(), 1.0737, 1e-3);
  EXPECT_EQ(json.at("rows")[1].at("wrong"), 3);
  EXPECT_EQ(sample_report(plan).wrong(), 3);
}

TEST(BenchReportTest, ALimitThatWasNotMeasuredIsNotShown) {
  const BenchSuite plan = sample_plan();
  SweepReport report = sample_report(plan);
  report.limit.reset();
  EXPECT_NE(sweep_table(plan, report).find("# memory limit: not measured\n"), std::string::npos);
  EXPECT_TRUE(sweep_json(report).at("limit").is_null());
  const BenchSuite small = parse_bench_suite({.op = "all_reduce", .ranks = "2", .sizes = "1K,4K"});
  EXPECT_NE(sweep_table(small, sample_report(small)).find("# memory limit: none, the arrays fit"),
            std::string::npos);
}

TEST(BenchReportTest, ShowsWhatAutoChooses) {
  const std::string table =
      choice_table(parse_bench_suite({.op = "all_reduce", .ranks = "2", .sizes = "64,1M"}));
  EXPECT_NE(table.find("all_reduce      2       64  one_shot   yes"), std::string::npos) << table;
  EXPECT_NE(table.find("all_reduce      2  1048576  direct     yes"), std::string::npos) << table;
}

}  // namespace
}  // namespace tessera
