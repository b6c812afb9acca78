// How much memory a run may take for the copies that it writes to checkpoints:
// checkpoint.memory_gib.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/command.h"

namespace tessera::testing {
namespace {

class SaveMemoryTest : public CommandTest {
 protected:
  SaveMemoryTest() {
    folder_.write("run.toml",
                  "[model]\nlayers=2\nhidden=16\nffn=32\nheads=2\nvocab=256\n[parallel]\ndp=2\n"
                  "[train]\nseq_len=8\nglobal_batch=4\nsteps=4\n[data.synth]\nbytes=3000\n"
                  "[checkpoint]\nevery=2\nkeep=2\n");
  }
  CommandResult train(const std::string& flags) {
    std::filesystem::remove_all(folder_.path("out"));
    return run("train run.toml -q --threads --set logging.run_dir=out " + flags);
  }
  [[nodiscard]] nlohmann::json staging_in(const std::string& file) const {
    return nlohmann::json::parse(read_file(folder_.path("out/" + file)))
        .at("checkpoints")
        .at("staging_bytes");
  }
};

TEST_F(SaveMemoryTest, AboveTheBoundStepsWaitAndNoCopyIsMade) {
  ASSERT_EQ(train("").code, 0);
  const nlohmann::json copies = staging_in("plan.json");
  EXPECT_EQ(copies, staging_in("summary.json"));
  const std::string weights = read_file(folder_.path("out/model.safetensors"));
  int64_t most = 0;
  for (const nlohmann::json& bytes : copies) most = std::max(most, bytes.get<int64_t>());
  ASSERT_GT(most, 0);
  // To the byte: what just fits is taken, one byte less is not.
  for (const bool fits : {true, false}) {
    SCOPED_TRACE(fits);
    const double gib = static_cast<double>(fits ? most : most - 1) / (1 << 30);
    const CommandResult result = train(fmt::format("--set checkpoint.memory_gib={:.17g}", gib));
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(staging_in("plan.json"), fits ? copies : nlohmann::json({0, 0}));
    EXPECT_EQ(staging_in("plan.json"), staging_in("summary.json"));
    const bool said =
        result.err.find("steps wait while checkpoints are written") != std::string::npos;
    EXPECT_EQ(said, !fits) << result.err;
    EXPECT_EQ(run("checkpoint verify out --deep").code, 0);
    EXPECT_TRUE(read_file(folder_.path("out/model.safetensors")) == weights);
  }
}

TEST_F(SaveMemoryTest, SnapshotsThatTakeMoreAreRefused) {
  const CommandResult result = run(
      "train run.toml -q --set logging.run_dir=out --restarts 1 --set checkpoint.memory_every=1 "
      "--set checkpoint.memory_gib=0.000001");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("checkpoint.memory_gib is 1e-06, but the snapshots that memory_every = "
                            "1 keeps take"),
            std::string::npos)
      << result.err;
}

// When a block of the newest turns out bad there must be one before it.
TEST_F(SaveMemoryTest, ASingleCheckpointIsNotEnough) {
  const CommandResult result = train("--set checkpoint.keep=1");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("checkpoint.keep = 1"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera::testing
