// Evaluation while a run trains: the same number on every mesh, and no bit of the training changes.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/testing/test_folder.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/report/planned_measured.h"
#include "train/session/session.h"

namespace tessera {
namespace {

using testing::TestFolder;

RunSpec evaluated(const std::string& mesh, const TestFolder& folder) {
  RunSpec spec;
  spec.model.layers = 2;
  spec.model.hidden = 16;
  spec.model.ffn = 32;
  spec.model.heads = 4;
  spec.model.vocab = 256;
  spec.parallel = parse_mesh(mesh, {});
  spec.train.seq_len = 16;
  spec.train.global_batch = 4;
  spec.train.steps = 4;
  spec.train.dtype = DType::kF64;
  spec.train.threads = 1;
  spec.optimizer.lr = 1e-2;
  spec.data.synth_bytes = 3000;  // 300 of others to evaluate on: 18 windows, five batches
  spec.eval.every = 2;
  spec.logging.run_dir = folder.path("run-" + mesh);
  spec.logging.every = 3;
  return spec;
}

TrainSummary trained(RunSpec spec) {
  resolve(spec);
  TrainOptions options;
  options.spec = spec;
  return run_training(options);
}

TEST(HeldOutTest, IsTheSameOnEveryMesh) {
  const TestFolder folder;
  const double one = trained(evaluated("dp=1", folder)).measured.at("valid_loss").get<double>();
  EXPECT_GT(one, 1);
  for (const char* mesh :
       {"dp=2,tp=2,zero=1", "fsdp=2,zero=3", "pp=2", "cp=2", "dp=4,sequence_parallel=false"}) {
    const TrainSummary summary = trained(evaluated(mesh, folder));
    EXPECT_NEAR(summary.measured.at("valid_loss").get<double>(), one, 1e-12 * one) << mesh;
    EXPECT_TRUE(plan_equals_measured(summary.plan, summary.measured)) << mesh;
  }
}

TEST(HeldOutTest, ChangesNoBitOfTheTraining) {
  const TestFolder folder;
  RunSpec spec = evaluated("dp=2", folder);
  spec.model.dropout = 0.2;
  spec.model.attention_dropout = 0.1;
  const TrainSummary with = trained(spec);
  spec.eval.every = 0;
  spec.logging.run_dir = folder.path("without");
  const TrainSummary without = trained(spec);
  EXPECT_EQ(with.final_loss, without.final_loss);
  EXPECT_FALSE(without.measured.contains("valid_loss"));
}

TEST(HeldOutTest, LinesOfMetricsHaveItWhenItIsMeasured) {
  const TestFolder folder;
  const TrainSummary summary = trained(evaluated("dp=1", folder));
  std::ifstream in(summary.run_dir + "/metrics.jsonl");
  std::vector<int64_t> steps, with;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    steps.push_back(json.at("step").get<int64_t>());
    if (!json.contains("valid_loss")) continue;
    with.push_back(steps.back());
    EXPECT_NEAR(json.at("valid_perplexity").get<double>(),
                std::exp(json.at("valid_loss").get<double>()), 1e-9);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(with, (std::vector<int64_t>{2, 4}));
}

// The mean over all windows, each once, whatever the batch.
TEST(HeldOutTest, EveryWindowCountsOnce) {
  const TestFolder folder;
  RunSpec spec = evaluated("dp=1", folder);
  spec.optimizer.lr = 1e-12;  // as good as untrained
  const double five = trained(spec).measured.at("valid_loss").get<double>();
  spec.train.global_batch = 18;
  spec.train.micro_batch = 1;
  spec.logging.run_dir = folder.path("one-batch");
  EXPECT_NEAR(trained(spec).measured.at("valid_loss").get<double>(), five, 1e-9);
}

}  // namespace
}  // namespace tessera
