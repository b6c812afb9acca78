#include "launch/environment.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"

namespace tessera {
namespace {

std::string error_of(const Environment& environment) {
  return testing::message_of([&] { (void)detect_launch(environment); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                              {"OMPI_COMM_WORLD_SIZE", "8"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Environment kTorchrun = {{"RANK", "3"},        {"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "1"},  {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
const Environment kAgent = {{"TESSERA_RANK", "2"},
                            {"TESSERA_WORLD_SIZE", "3"},
                            {"TESSERA_LOCAL_RANK", "2"},
                            {"TESSERA_SHM_FD", "7"},
                            {"TESSERA_RUN_TOKEN", "secret"}};
const Environment kSrun = {{"SLURM_JOB_ID", "99"},      {"SLURM_STEP_ID", "0"},
                           {"SLURM_PROCID", "6"},       {"SLURM_STEP_NUM_TASKS", "7"},
                           {"SLURM_LOCALID", "2"},      {"SLURM_NTASKS", "28"},
                           {"SLURM_STEP_NODELIST", "n"}};

Environment with(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base.insert_or_assign(name, value);
  return base;
}

Environment without(Environment base, const std::string& name) {
  base.erase(name);
  return base;
}

TEST(EnvironmentTest, ReadsTheSystemsForm) {
  const char* const variables[] = {"A=1", "B=x=y", "C=", "nonsense", nullptr};
  EXPECT_EQ(environment_from(variables), (Environment{{"A", "1"}, {"B", "x=y"}, {"C", ""}}));
  EXPECT_TRUE(environment_from(nullptr).empty());
}

TEST(EnvironmentTest, NobodyStartedIt) {
  const LaunchContext context = detect_launch({{"PATH", "/bin"}, {"RANK", ""}});
  EXPECT_EQ(context.launcher, Launcher::kNone);
  EXPECT_EQ(context.rank, 0);
  EXPECT_EQ(context.size, 1);
  EXPECT_FALSE(context.by_mpi());
}

TEST(EnvironmentTest, Agent) {
  const LaunchContext context = detect_launch(kAgent);
  EXPECT_EQ(context.launcher, Launcher::kAgent);
  EXPECT_EQ(context.rank, 2);
  EXPECT_EQ(context.size, 3);
  EXPECT_EQ(context.local_rank, 2);
  EXPECT_EQ(context.shm_fd, 7);
  EXPECT_EQ(context.token, "secret");
  EXPECT_FALSE(context.by_mpi());
}

TEST(EnvironmentTest, OpenMpi) {
  const LaunchContext context = detect_launch(kOpenMpi);
  EXPECT_EQ(context.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(context.rank, 5);
  EXPECT_EQ(context.size, 8);
  EXPECT_EQ(context.local_rank, 1);
  EXPECT_EQ(context.local_size, 4);
  EXPECT_TRUE(context.by_mpi());
}

TEST(EnvironmentTest, Pmi) {
  const LaunchContext context = detect_launch({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  EXPECT_EQ(context.launcher, Launcher::kPmi);
  EXPECT_EQ(context.size, 1);
  EXPECT_FALSE(context.local_rank.has_value());
  EXPECT_TRUE(context.by_mpi());
}

TEST(EnvironmentTest, Torchrun) {
  const LaunchContext context = detect_launch(kTorchrun);
  EXPECT_EQ(context.launcher, Launcher::kTorchrun);
  EXPECT_EQ(context.rank, 3);
  EXPECT_EQ(context.size, 4);
  EXPECT_EQ(context.local_rank, 1);
  EXPECT_EQ(context.local_size, 2);
  EXPECT_EQ(context.master_address, "a");
  EXPECT_EQ(context.master_port, 29500);
  EXPECT_EQ(context.num_ports, 1);
  EXPECT_EQ(context.token, "");
}

// torchrun listens on MASTER_PORT itself then.
TEST(EnvironmentTest, TorchrunWithAStoreOfItsOwn) {
  const LaunchContext context = detect_launch(with(
      kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "run-1"}}));
  EXPECT_EQ(context.master_port, 29501);
  EXPECT_GT(context.num_ports, 1);
  EXPECT_EQ(context.token, "run-1");
}

TEST(EnvironmentTest, TorchrunNeedsAMeetingPlace) {
  EXPECT_TRUE(contains(error_of(without(kTorchrun, "MASTER_ADDR")), "MASTER_ADDR is not set"));
  EXPECT_TRUE(contains(error_of(without(kTorchrun, "MASTER_PORT")), "MASTER_PORT is not set"));
  EXPECT_TRUE(contains(error_of(with(kTorchrun, {{"MASTER_PORT", "70000"}})),
                       "MASTER_PORT is \"70000\", not a whole number from 1 to 65535"));
  const LaunchContext by_file = detect_launch(
      with(without(kTorchrun, "MASTER_ADDR"), {{"TESSERA_RENDEZVOUS_FILE", "/shared/meet"}}));
  EXPECT_EQ(by_file.rendezvous_file, "/shared/meet");
  EXPECT_EQ(detect_launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).launcher, Launcher::kTorchrun);
}

TEST(EnvironmentTest, Srun) {
  const LaunchContext context = detect_launch(kSrun);
  EXPECT_EQ(context.launcher, Launcher::kSlurm);
  EXPECT_EQ(context.rank, 6);
  EXPECT_EQ(context.size, 7);
  EXPECT_EQ(context.local_rank, 2);
  EXPECT_TRUE(context.by_mpi());
  EXPECT_EQ(detect_launch(without(kSrun, "SLURM_STEP_NUM_TASKS")).size, 28);
}

TEST(EnvironmentTest, SlurmShellsAreNoRanks) {
  // A batch script, an interactive allocation (a step that Slurm made), `srun --pty bash`.
  EXPECT_EQ(detect_launch(without(kSrun, "SLURM_STEP_ID")).launcher, Launcher::kNone);
  EXPECT_EQ(detect_launch(with(kSrun, {{"SLURM_STEP_ID", "4294967290"}})).launcher,
            Launcher::kNone);
  EXPECT_EQ(
      detect_launch(with(kSrun, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})).launcher,
      Launcher::kNone);
}

TEST(EnvironmentTest, Precedence) {
  Environment all = with(kTorchrun, kSrun);
  EXPECT_EQ(detect_launch(all).launcher, Launcher::kTorchrun);
  all = with(all, {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(detect_launch(all).launcher, Launcher::kPmi);
  all = with(all, kOpenMpi);
  EXPECT_EQ(detect_launch(all).launcher, Launcher::kOpenMpi);
  all = with(all, kAgent);
  EXPECT_EQ(detect_launch(all).launcher, Launcher::kAgent);
}

TEST(EnvironmentTest, RefusesContradictions) {
  const std::pair<Environment, const char*> cases[] = {
      {with(kTorchrun, {{"RANK", "4"}}), "RANK=4 and WORLD_SIZE=4: ranks go from 0 to 3"},
      {with(kTorchrun, {{"RANK", "x"}}), "RANK is \"x\", not a whole number"},
      {with(kTorchrun, {{"RANK", "1 "}}), "RANK is \"1 \""},
      {with(kTorchrun, {{"RANK", "-1"}}), "RANK is \"-1\""},
      {with(kTorchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE is \"0\""},
      {with(kTorchrun, {{"WORLD_SIZE", "99999999999999999999"}}), "WORLD_SIZE is"},
      {without(kTorchrun, "WORLD_SIZE"), "RANK is \"3\" but WORLD_SIZE is not set"},
      {without(kTorchrun, "RANK"), "WORLD_SIZE is \"4\" but RANK is not set"},
      {with(kTorchrun, {{"LOCAL_RANK", "2"}}), "LOCAL_RANK=2 and LOCAL_WORLD_SIZE=2"},
      {with(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}}), "LOCAL_WORLD_SIZE=5 but WORLD_SIZE=4"},
      {without(kOpenMpi, "OMPI_COMM_WORLD_SIZE"), "OMPI_COMM_WORLD_SIZE is not set"},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "8"}}), "OMPI_COMM_WORLD_RANK=8"},
      {without(kAgent, "TESSERA_SHM_FD"), "unset TESSERA_RANK"},
      {with(kAgent, {{"TESSERA_SHM_FD", "seven"}}), "TESSERA_SHM_FD is \"seven\""},
      {with(kSrun, {{"SLURM_STEP_ID", "x"}}), "SLURM_STEP_ID is \"x\""},
      {with(kSrun, {{"SLURM_PROCID", "7"}}), "SLURM_PROCID=7 and SLURM_STEP_NUM_TASKS=7"},
  };
  for (const auto& [environment, text] : cases) {
    EXPECT_TRUE(contains(error_of(environment), text)) << error_of(environment);
  }
}

}  // namespace
}  // namespace tessera
