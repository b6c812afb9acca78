// A bad batch costs a step, the same one on every rank of every mesh.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/philox.h"
#include "base/testing/test_folder.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/session/session.h"

namespace tessera {
namespace {

using testing::TestFolder;

constexpr int64_t kSeqLen = 32;
constexpr int64_t kWindows = 80;

// What is easily learned, with one window of noise.
std::string text_with_noise() {
  std::string text;
  while (std::ssize(text) < kSeqLen * kWindows + 1) text += "a b c d ";
  for (int64_t i = 0; i < kSeqLen; ++i) {
    text[static_cast<size_t>(kSeqLen * 50 + i)] =
        static_cast<char>(64 + 190 * uniform_at(3, 0, static_cast<uint64_t>(i)));
  }
  return text;
}

RunSpec guarded(const std::string& mesh, const TestFolder& folder) {
  folder.write("text", text_with_noise());
  RunSpec spec;
  spec.model.layers = 2;
  spec.model.hidden = 32;
  spec.model.ffn = 64;
  spec.model.heads = 4;
  spec.model.vocab = 256;
  spec.parallel = parse_mesh(mesh, {});
  spec.train.seq_len = kSeqLen;
  spec.train.global_batch = 4;
  spec.train.steps = 80;  // four epochs
  spec.train.threads = 1;
  spec.train.skip_spikes = true;
  spec.train.spike_window = 5;
  spec.optimizer.lr = 3e-3;
  spec.optimizer.schedule = LrSchedule::kConstant;
  spec.data.path = folder.path("text");
  spec.logging.run_dir = folder.path("run-" + mesh);
  resolve(spec);
  return spec;
}

struct Skips {
  std::vector<int64_t> steps;
  std::string reason;
  int64_t counted = 0;
};

Skips skips_of(const RunSpec& spec, const std::string& inject = "") {
  TrainOptions options;
  options.spec = spec;
  if (!inject.empty()) options.inject = parse_injection(inject);
  std::vector<int64_t> shown;
  options.on_progress = [&](const TrainProgress& progress) {
    if (progress.skipped) shown.push_back(progress.step);
  };
  const TrainSummary summary = run_training(options);
  Skips skips;
  std::ifstream in(summary.run_dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    skips.counted = json.at("skipped_steps").get<int64_t>();
    if (!json.contains("skipped")) continue;
    skips.steps.push_back(json.at("step").get<int64_t>());
    skips.reason = json.at("skipped").get<std::string>();
  }
  EXPECT_EQ(shown, skips.steps);
  return skips;
}

TEST(SpikesTest, APlantedBadBatchIsSkippedOnEveryMeshAlike) {
  const TestFolder folder;
  const Skips one = skips_of(guarded("dp=1", folder));
  // Once in an epoch of 20 steps, from where the rest is learned.
  EXPECT_GE(one.steps.size(), 2U);
  EXPECT_LE(one.steps.size(), 4U);
  EXPECT_EQ(one.counted, std::ssize(one.steps));
  EXPECT_NE(one.reason.find("times its mean"), std::string::npos) << one.reason;
  for (const char* mesh : {"dp=2,tp=2,zero=1", "fsdp=2,zero=3", "pp=2"}) {
    EXPECT_EQ(skips_of(guarded(mesh, folder)).steps, one.steps) << mesh;
  }
}

TEST(SpikesTest, AStepThatIsNotFiniteIsSkippedToo) {
  const TestFolder folder;
  RunSpec spec = guarded("dp=2", folder);
  spec.train.steps = 5;
  const Skips skips = skips_of(spec, "nan:tensor=layers.0.q,step=3,rank=1");
  EXPECT_EQ(skips.steps, std::vector<int64_t>{3});
  EXPECT_NE(skips.reason.find("nan"), std::string::npos) << skips.reason;
}

TEST(SpikesTest, TooManyOneAfterAnotherEndTheRun) {
  const TestFolder folder;
  RunSpec spec = guarded("dp=2", folder);
  spec.train.steps = 5;
  spec.train.spike_limit = 1;
  try {
    (void)skips_of(spec, "nan:tensor=layers.0.q,step=3,rank=1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDiverged);
    const std::string text = error.what();
    EXPECT_NE(text.find("train.spike_limit"), std::string::npos) << text;
    EXPECT_NE(text.find("layers.0.q"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tessera
