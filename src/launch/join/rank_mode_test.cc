#include "launch/join/rank_mode.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "launch/testing/started_by.h"

namespace tessera {
namespace {

using testing::started_by;

TEST(RankModeTest, WithoutALauncherTheBackendDecides) {
  const LaunchContext nobody;
  EXPECT_EQ(choose_rank_mode("auto", nobody, 4), RankMode::kAgent);
  EXPECT_EQ(choose_rank_mode("auto", nobody, 1), RankMode::kThreads);
  EXPECT_EQ(choose_rank_mode("local", nobody, 4), RankMode::kThreads);
  EXPECT_EQ(choose_rank_mode("shm", nobody, 1), RankMode::kAgent);
  EXPECT_THROW(choose_rank_mode("mpi", nobody, 4), ConfigError);
  EXPECT_EQ(choose_rank_mode("auto", nobody, 64), RankMode::kAgent);
  for (const std::string backend : {"auto", "local", "shm"}) {
    EXPECT_THROW(choose_rank_mode(backend, nobody, 65), ConfigError) << backend;
  }
}

TEST(RankModeTest, ALauncherIsRecognised) {
  EXPECT_EQ(choose_rank_mode("auto", started_by(Launcher::kAgent, 4), 4), RankMode::kAgentRank);
  EXPECT_EQ(choose_rank_mode("auto", started_by(Launcher::kTorchrun, 4), 4),
            RankMode::kTorchrunRank);
  for (const Launcher mpi : {Launcher::kOpenMpi, Launcher::kPmi, Launcher::kSlurm}) {
    EXPECT_EQ(choose_rank_mode("auto", started_by(mpi, 4), 4), RankMode::kMpiRank);
    EXPECT_EQ(choose_rank_mode("mpi", started_by(mpi, 4), 4), RankMode::kMpiRank);
    EXPECT_THROW(choose_rank_mode("local", started_by(mpi, 4), 4), ConfigError);
    EXPECT_THROW(choose_rank_mode("shm", started_by(mpi, 4), 4), ConfigError);
  }
  EXPECT_THROW(choose_rank_mode("local", started_by(Launcher::kTorchrun, 4), 4), ConfigError);
}

TEST(RankModeTest, OneRankAloneNeedsNobody) {
  EXPECT_EQ(choose_rank_mode("auto", started_by(Launcher::kOpenMpi, 1), 1), RankMode::kThreads);
  EXPECT_EQ(choose_rank_mode("mpi", started_by(Launcher::kOpenMpi, 1), 1), RankMode::kMpiRank);
  EXPECT_EQ(choose_rank_mode("shm", started_by(Launcher::kAgent, 1), 1), RankMode::kAgentRank);
}

std::string refusal(const GpuHost& host, int64_t ranks, bool may_share = false) {
  try {
    require_gpus(host, ranks, may_share);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(GpuRanksTest, EveryRankOfAHostGetsItsGpu) {
  const GpuHost host{.gpus = 4, .why_not = "", .nccl_obstacle = ""};
  EXPECT_EQ(refusal(host, 4), "");
  LaunchContext context;
  context.rank = 6;
  context.size = 8;
  EXPECT_EQ(gpu_of_rank(host, context), 2) << "hosts one after the other";
  context.local_rank = 3;
  EXPECT_EQ(gpu_of_rank(host, context), 3);
}

TEST(GpuRanksTest, RanksWithoutAGpuEachAreRefused) {
  EXPECT_EQ(refusal({.gpus = 1, .why_not = "", .nccl_obstacle = ""}, 4),
            "train.device = \"cuda\": 4 ranks of this host want a GPU each, and it has 1: start "
            "fewer ranks here, or add --threads, with which ranks share one GPU");
  EXPECT_EQ(refusal({.gpus = 1, .why_not = "", .nccl_obstacle = ""}, 4, true), "");
  EXPECT_EQ(
      refusal({.gpus = 0, .why_not = "this machine has no NVIDIA driver", .nccl_obstacle = ""}, 2),
      "train.device = \"cuda\": this machine has no NVIDIA driver; use device = \"cpu\"");
}

TEST(GpuRanksTest, MissingNcclIsNamed) {
  EXPECT_EQ(
      refusal({.gpus = 2, .why_not = "", .nccl_obstacle = "libnccl.so.2 cannot be opened"}, 2),
      "train.device = \"cuda\" with ranks as processes needs NCCL: libnccl.so.2 cannot be "
      "opened; or add --threads, with which ranks share one GPU");
}

}  // namespace
}  // namespace tessera
