#include "rank_mode.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

LaunchContext started_by(Launcher launcher, int size) {
  LaunchContext context;
  context.launcher = launcher;
  context.size = size;
  return context;
}

TEST(RankModeTest, WithoutALauncherTheBackendDecides) {
  const LaunchContext nobody;
  EXPECT_EQ(choose_rank_mode("auto", nobody, 4), RankMode::kAgent);
  EXPECT_EQ(choose_rank_mode("auto", nobody, 1), RankMode::kThreads);
  EXPECT_EQ(choose_rank_mode("local", nobody, 4), RankMode::kThreads);
  EXPECT_EQ(choose_rank_mode("shm", nobody, 1), RankMode::kAgent);
  EXPECT_THROW(choose_rank_mode("mpi", nobody, 4), ConfigError);
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

TEST(RankModeTest, AsManyRanksAsTheMeshHas) {
  RunSpec spec;
  spec.parallel.dp = 4;
  spec.model.heads = 4;
  EXPECT_NO_THROW(require_started_ranks(spec, started_by(Launcher::kSlurm, 4)));
  try {
    require_started_ranks(spec, started_by(Launcher::kSlurm, 2));
    FAIL() << "two ranks for a mesh of four";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("needs 4 ranks but srun started 2; meshes with 2"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera
