#include "bench/bench_step_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compile/model/model_flops.h"
#include "compile/testing/test_spec.h"
#include "train/machine_defaults.h"

namespace tessera {
namespace {

CompiledRun small_run(const std::string& mesh) {
  return compile_here(testing::resolved(testing::small_spec(mesh)));
}

StepReport sample_report(const CompiledRun& run) {
  StepReport report{run, {}, {.flops_per_s = 1e9, .bytes_per_s = 1e8}, {}, "cpu"};
  report.result.step_s = {0.011, 0.010, 0.030};
  report.result.instruction_s.assign(run.programs.front().instructions.size(), 1e-4);
  report.result.probed_step_s = 0.012;
  report.result.arena_bytes = run.programs.front().arena_bytes;
  report.result.resident_bytes = 1 << 20;
  report.peak = choose_peak(0, "", DType::kF32, report.rates);
  return report;
}

TEST(BenchStepReportTest, ThePeakIsTheUsersTheGpusOrTheMeasuredOne) {
  const DeviceRates rates{5e12, 1e12};
  EXPECT_EQ(choose_peak(100, "NVIDIA H200", DType::kBF16, rates).flops_per_s, 100e12);
  EXPECT_EQ(choose_peak(0, "NVIDIA H200", DType::kBF16, rates).flops_per_s, 989e12);
  EXPECT_EQ(choose_peak(0, "NVIDIA H200", DType::kF32, rates).flops_per_s, 5e12);
  EXPECT_EQ(choose_peak(0, "NVIDIA H100 PCIe", DType::kBF16, rates).flops_per_s, 5e12);
  EXPECT_EQ(choose_peak(0, "", DType::kBF16, rates).source, "measured by a large product");
}

TEST(BenchStepReportTest, EveryInstructionIsInOneClass) {
  const CompiledRun run = small_run("dp=2");
  const StepReport report = sample_report(run);
  const std::vector<ClassRow> rows =
      class_rows(run.programs.front(), report.result.instruction_s, report.rates);
  int64_t instructions = 0;
  for (const ClassRow& row : rows) {
    instructions += row.instructions;
    EXPECT_DOUBLE_EQ(row.seconds, 1e-4 * static_cast<double>(row.instructions));
    EXPECT_GE(row.floor_s, row.bytes / report.rates.bytes_per_s * (1 - 1e-12));
  }
  EXPECT_EQ(instructions, static_cast<int64_t>(run.programs.front().instructions.size()));
  EXPECT_EQ(rows.back().op_class, OpClass::kCommunication);
}

TEST(BenchStepReportTest, FiguresFollowFromTheMedian) {
  const CompiledRun run = small_run("dp=1");
  const nlohmann::ordered_json json = step_json(sample_report(run));
  EXPECT_DOUBLE_EQ(json.at("step_ms"), 11);
  EXPECT_DOUBLE_EQ(json.at("best_ms"), 10);
  EXPECT_DOUBLE_EQ(json.at("tokens_per_s"), 8 / 0.011);
  const double flops = model_flops(run.step.spec).total();
  EXPECT_DOUBLE_EQ(json.at("mfu"), flops / 0.011 / 1e9);
  EXPECT_EQ(json.at("mfu"), json.at("hfu"));
  EXPECT_EQ(json.at("memory").at("parameters").at("planned"),
            json.at("memory").at("parameters").at("measured"));
}

TEST(BenchStepReportTest, WhatIsComputedAgainCountsInHfu) {
  const CompiledRun run = small_run("recompute=full");
  const StepReport report = sample_report(run);
  EXPECT_GT(step_json(report).at("hfu"), step_json(report).at("mfu"));
  EXPECT_NE(step_text(report).find("HFU"), std::string::npos);
  EXPECT_EQ(step_text(sample_report(small_run("dp=1"))).find("HFU"), std::string::npos);
}

TEST(BenchStepReportTest, TheTableHasClassesAndMemory) {
  const CompiledRun run = small_run("dp=1");
  const std::string text = step_text(sample_report(run));
  for (const char* word :
       {"device    cpu, f32, 1 rank\n", "step      11.00 ms, median of 3", "products", "attention",
        "kernels", "memory of rank 0", "activations", "measured by a large product"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  }
}

}  // namespace
}  // namespace tessera
