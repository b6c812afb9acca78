// Checkpoints of real runs that an earlier Tessera has written (tests/data/checkpoint_runs, whose
// make.sh made them): today's goes on from them, exports and measures them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "support/command.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

const std::string kRuns = std::string(TESSERA_SOURCE_DIR) + "/tests/data/checkpoint_runs";
// Kernels of other machines round otherwise; without its checkpoint a run is 0.3 away.
constexpr double kTolerance = 2e-3;

class CheckpointGoldenTest : public CommandTest, public ::testing::WithParamInterface<const char*> {
 protected:
  CheckpointGoldenTest() {
    folder_.write("run.toml", read_file(kRuns + "/run.toml"));
    folder_.write(
        "text.txt",
        "A boy ran to the sea and saw a red ship. It was far away, and he was glad to see "
        "it.\n");
    fs::copy(kRuns + "/" + GetParam(), folder_.path("saved"), fs::copy_options::recursive);
    expected_ = nlohmann::json::parse(read_file(kRuns + "/expected.json")).at(GetParam());
  }
  void expect_near(double value, const nlohmann::json& expected) {
    EXPECT_LT(std::abs(value - expected.get<double>()), kTolerance) << value << " " << expected;
  }
  CommandResult done(const std::string& line) {
    CommandResult result = run(line);
    EXPECT_EQ(result.code, 0) << line << ": " << result.err;
    return result;
  }

  nlohmann::json expected_;
};

TEST_P(CheckpointGoldenTest, IsWholeToTheLastBlock) { done("checkpoint verify saved --deep"); }

TEST_P(CheckpointGoldenTest, IsGoneOnFromOnThisMeshAndOnAnother) {
  for (const std::string mesh : {"dp=2", "tp=2"}) {
    SCOPED_TRACE(mesh);
    done(std::string("train run.toml -q --threads --resume saved --set train.dtype=") + GetParam() +
         " --mesh " + mesh + " --set logging.run_dir=" + mesh);
    const std::vector<nlohmann::json> lines = read_metrics(folder_.path(mesh + "/metrics.jsonl"));
    ASSERT_EQ(lines.size(), 2U);
    for (const nlohmann::json& line : lines) {
      const std::string step = std::to_string(line.at("step").get<int64_t>());
      expect_near(line.at("loss").get<double>(), expected_.at("loss").at(step));
    }
  }
}

// Negative control: the losses are those of the checkpoint, not of any run.
TEST_P(CheckpointGoldenTest, ARunFromTheBeginningHasOtherLosses) {
  done(std::string("train run.toml -q --threads --set logging.run_dir=new --set train.dtype=") +
       GetParam());
  const std::vector<nlohmann::json> lines = read_metrics(folder_.path("new/metrics.jsonl"));
  EXPECT_GT(lines.at(0).at("loss").get<double>() - expected_.at("loss").at("5").get<double>(), 0.1);
}

TEST_P(CheckpointGoldenTest, IsExportedWithTheSameBits) {
  done("export-hf saved/step-00000004 hf");
  const std::string file = read_file(folder_.path("hf/model.safetensors"));
  uint64_t head = 0;
  for (size_t i = 8; i-- > 0;) head = head << 8 | static_cast<uint8_t>(file.at(i));
  EXPECT_EQ(sha256_hex(file.substr(8 + head)), expected_.at("data_sha256").get<std::string>());
}

TEST_P(CheckpointGoldenTest, IsMeasured) {
  const CommandResult result = done("eval saved/step-00000004 --data text.txt --json");
  expect_near(nlohmann::json::parse(result.out).at("sets").at(0).at("loss").get<double>(),
              expected_.at("eval"));
}

INSTANTIATE_TEST_SUITE_P(Types, CheckpointGoldenTest, ::testing::Values("bf16", "f16"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tessera::testing
