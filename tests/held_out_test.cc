// Evaluation while a run trains: the same number on every mesh, and no bit of the training changes.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "support/command.h"
#include "support/token_sets.h"
#include "train/directory/run_remarks.h"
#include "train/report/planned_measured.h"
#include "train/samples/run_sets.h"
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

// Sets of tokens whose attention stays inside documents.
RunSpec with_sets(const std::string& mesh, const TestFolder& folder) {
  RunSpec spec = evaluated(mesh, folder);
  const auto set = [&](const std::string& name, uint64_t seed, int documents) {
    const std::string place = folder.path(name);
    if (!std::filesystem::exists(place)) testing::make_token_set(place, seed, documents, 256);
    return place;
  };
  spec.data.train = set("train", 1, 90);
  spec.data.valid = {{"code", set("code", 2, 33)}, {"docs", set("docs", 3, 21)}};
  spec.data.document_mask = true;
  spec.train.steps = 2;
  return spec;
}

TEST(HeldOutTest, EverySetIsTheSameOnEveryMesh) {
  const TestFolder folder;
  const auto one = trained(with_sets("dp=1", folder)).measured;
  const std::vector<std::string> keys = {"code.loss", "code.perplexity", "docs.loss",
                                         "docs.perplexity"};
  ASSERT_EQ(one.at("valid").size(), keys.size());
  EXPECT_NE(one.at("valid").at("code.loss"), one.at("valid").at("docs.loss"));
  for (const char* mesh : {"dp=2", "tp=2", "cp=2", "dp=2,cp=2", "cp=2,cp_kind=allgather",
                           "cp=2,cp_kind=ulysses", "pp=2", "fsdp=2,zero=3", "pp=2,dp=2,tp=2"}) {
    const TrainSummary summary = trained(with_sets(mesh, folder));
    for (const std::string& key : keys) {
      const double expected = one.at("valid").at(key).get<double>();
      EXPECT_NEAR(summary.measured.at("valid").at(key).get<double>(), expected, 1e-12 * expected)
          << mesh << ", " << key;
    }
    EXPECT_TRUE(plan_equals_measured(summary.plan, summary.measured)) << mesh;
  }
  // The comparison sees attention that crosses documents.
  RunSpec leaks = with_sets("cp=2", folder);
  leaks.data.document_mask = false;
  leaks.logging.run_dir = folder.path("leaks");
  const auto other = trained(leaks).measured;
  EXPECT_GT(std::abs(other.at("valid").at("docs.loss").get<double>() -
                     one.at("valid").at("docs.loss").get<double>()),
            1e-6);
}

// Each number is that of its set alone; all together are the mean over tokens.
TEST(HeldOutTest, EverySetIsMeasuredByItself) {
  const TestFolder folder;
  RunSpec spec = with_sets("dp=1", folder);
  const auto both = trained(spec).measured;
  const std::vector<ValidSet> sets = spec.data.valid;
  double weighted = 0, tokens = 0;
  for (const ValidSet& set : sets) {
    spec.data.valid = {{"", set.path}};
    spec.logging.run_dir = folder.path("alone-" + set.name);
    const auto alone = trained(spec).measured;
    EXPECT_FALSE(alone.contains("valid"));
    EXPECT_EQ(alone.at("valid_loss"), both.at("valid").at(set.name + ".loss"));
    const int64_t windows = (TokenSet::open(set.path).size() - 1) / 16;
    weighted += alone.at("valid_loss").get<double>() * static_cast<double>(windows);
    tokens += static_cast<double>(windows);
  }
  EXPECT_NEAR(both.at("valid_loss").get<double>(), weighted / tokens, 1e-12);
  EXPECT_NEAR(both.at("valid_perplexity").get<double>(), std::exp(weighted / tokens), 1e-9);
}

TEST(HeldOutTest, LinesAndCommandsKnowTheSets) {
  const TestFolder folder;
  RunSpec spec = with_sets("dp=1", folder);
  spec.logging.run_dir = folder.path("run");
  spec.logging.tensorboard = true;
  const std::string remarks = run_remarks(trained(spec).measured);
  for (const char* start : {"held out, code: loss ", "held out, docs: loss ", "held out, all: "}) {
    EXPECT_NE(remarks.find(start), std::string::npos) << remarks;
  }
  const testing::CommandResult csv = testing::tessera(folder, "metrics run --csv -");
  ASSERT_EQ(csv.code, 0) << csv.err;
  for (const char* key : {"valid_loss", "valid.code.loss", "valid.docs.perplexity"}) {
    EXPECT_NE(csv.out.find(key), std::string::npos) << key << " in\n" << csv.out;
    EXPECT_EQ(testing::tessera(folder, fmt::format("metrics run --key {}", key)).code, 0) << key;
  }
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("run"))) {
    if (entry.path().filename().string().starts_with("events.out")) {
      events = testing::read_file(entry.path().string());
    }
  }
  for (const char* tag : {"valid/loss", "valid/loss docs", "valid/perplexity code"}) {
    EXPECT_NE(events.find(tag), std::string::npos) << tag;
  }
}

// Otherwise borders would be looked for that are none.
TEST(HeldOutTest, RefusesASetWhoseDocumentsEndOtherwise) {
  const TestFolder folder;
  RunSpec spec = with_sets("dp=1", folder);
  EXPECT_NO_THROW(check_sets(spec));
  spec.data.end_token = 7;
  EXPECT_THROW(check_sets(spec), ConfigError);
  spec.data.document_mask = false;
  EXPECT_NO_THROW(check_sets(spec));
}

}  // namespace
}  // namespace tessera
