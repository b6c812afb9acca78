// Measuring this machine and predicting runs on it, as a user does. Nothing here asks how long
// anything took: machines that run tests are busy.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/command.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests
using nlohmann::json;

class CalibrateTest : public CommandTest {
 protected:
  void expect_refused(const std::string& line, const std::string& words) {
    const CommandResult result = run(line);
    EXPECT_EQ(result.code, 2) << line << "\n" << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << line << "\n" << result.err;
  }
};

// Measuring takes most of the time, so one file serves all that is asked of one.
TEST_F(CalibrateTest, WhatItWritesPredictsRuns) {
  const CommandResult written = run("calibrate --quick --out machine.toml");
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_NE(written.out.find("all_reduce, 4 processes"), std::string::npos) << written.out;

  folder_.write("runs.txt",
                "# comments and empty lines are skipped\n\n"
                "one: model.layers=2 model.hidden=64 model.ffn=96 model.heads=4 model.vocab=64 "
                "train.seq_len=16\n"
                "two: model.layers=2 model.hidden=64 model.ffn=96 model.heads=4 model.vocab=64 "
                "train.seq_len=16 parallel.dp=2  # a comment\n"
                "stages: model.layers=2 model.hidden=64 model.ffn=96 model.heads=4 model.vocab=64 "
                "train.seq_len=16 train.global_batch=4 parallel.pp=2\n");
  const CommandResult result =
      run("bench predict runs.txt --cluster machine.toml --steps 2 --warmup 1 --json");
  ASSERT_EQ(result.code, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report.at("n"), 3);
  EXPECT_GE(report.at("cores"), 1);
  EXPECT_GE(report.at("others_cores"), 0);
  EXPECT_NE(report.at("calibrated").get<std::string>().find("tessera calibrate --quick"),
            std::string::npos);
  for (const json& entry : report.at("runs")) {
    EXPECT_TRUE(entry.at("plan_equals_run")) << entry;
    EXPECT_GT(entry.at("predicted_ms"), 0) << entry;
    EXPECT_GT(entry.at("measured_ms"), 0) << entry;
    // Sums of gradients over micro-batches have no curve of their own.
    if (entry.at("name") != "stages") {
      EXPECT_EQ(entry.at("priced_by_class"), 0) << entry;
    }
    // A step of rank 0 is its kernels and its waits.
    EXPECT_GT(entry.at("classes").size(), 1U) << entry;
    EXPECT_EQ(entry.at("classes").back().at("class"), "waits") << entry;
  }

  // Frames of serving were measured as well.
  folder_.write("served.txt",
                "one: model.layers=2 model.hidden=64 model.ffn=96 model.heads=4 model.vocab=64 "
                "serve.dtype=f32 serve.batch=1,3 serve.prompt=20 serve.context=8\n"
                "two: model.layers=2 model.hidden=64 model.ffn=96 model.heads=4 model.vocab=64 "
                "serve.dtype=f32 serve.batch=1 serve.prompt=20 serve.context=8 serve.tp=2\n");
  const CommandResult served =
      run("bench predict --serve served.txt --cluster machine.toml --json");
  ASSERT_EQ(served.code, 0) << served.err;
  const json figures = json::parse(served.out);
  EXPECT_EQ(figures.at("n"), 5);
  for (const json& figure : figures.at("figures")) {
    EXPECT_GT(figure.at("predicted_s"), 0) << figure;
    EXPECT_GT(figure.at("measured_s"), 0) << figure;
    EXPECT_GT(figure.at("frame").at("products_s"), 0) << figure;
    EXPECT_GT(figure.at("frame").at("host_s"), 0) << figure;
  }

  // The same file is a machine to simulate on, and gives the same answer every time.
  const std::string simulate = "simulate --cluster machine.toml --json run.toml --mesh dp=2";
  folder_.write("run.toml", tiny_run_file());
  const CommandResult first = run(simulate);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, run(simulate).out);

  // Lists that are none, and a file of another device.
  folder_.write("bad.txt", "model.layers=2\n");
  expect_refused("bench predict bad.txt --cluster machine.toml", "bad.txt:1: write NAME:");
  std::string text = read_file(folder_.path("machine.toml"));
  text.replace(text.find("device = \"cpu\""), std::size("device = \"cpu\"") - 1,
               "device = \"cuda\"");
  folder_.write("gpu.toml", text);
  expect_refused("bench predict runs.txt --cluster gpu.toml", "was measured on cuda");
}

TEST_F(CalibrateTest, SaysWhatIsMissing) {
  folder_.write("runs.txt",
                "one: model.layers=2 model.hidden=64 model.ffn=96 model.heads=4 model.vocab=64 "
                "train.seq_len=16\n");
  expect_refused("calibrate --out nowhere/machine.toml", "no folder that can be written to");
  expect_refused("bench predict runs.txt", "--cluster is missing");
  expect_refused("bench predict --cluster cpu", "no list of runs");
  expect_refused("bench predict runs.txt --cluster cpu", "has no [measured] kernels");
  expect_refused("calibrate --out machine.json", "must end in .toml");
}

}  // namespace
}  // namespace tessera
