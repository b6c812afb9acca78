// MPI between three hosts of one machine (examples/multi_host/netns_hosts.sh): over TCP, with a
// cable that can be pulled.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "mpi_job.h"

namespace tessera {
namespace {

using testing::JobResult;
using testing::read_file;
using testing::TestFolder;

const std::string kFolder = TESSERA_SOURCE_DIR "/examples/multi_host/";
const std::string kHosts = kFolder + "netns_hosts.sh";

// Shell functions for what runs beside the hosts.
const std::string kPrelude =
    "hosts=" + kHosts +
    "\n"
    "for host in node1 node2 node3; do echo \"$host slots=1\"; done > $FOLDER/hostfile\n"
    // mpi PROGRAM...: one rank on each host. Its temporary files go when the hosts do.
    "mpi() {\n"
    "  SSH=\"$hosts ssh\" OUTPUT=$FOLDER/output HOST_TIMEOUT=4 \\\n"
    "  MPIRUN_OPTIONS='--mca orte_tmpdir_base /dev/shm' \\\n"
    "  $hosts exec node1 " +
    kFolder +
    "ssh_run.sh $FOLDER/hostfile 10.77.0.0/24 -- \"$@\"\n"
    "}\n"
    // until_said TEXT PATH: it is in the file, or in one of the folder.
    "until_said() {\n"
    "  for i in $(seq 200); do grep -rqs \"$1\" $2 && return; sleep 0.1; done\n"
    "  echo \"nobody said '$1'\"; exit 9\n"
    "}\n";

class MpiHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const JobResult check = testing::run_job({kHosts, "check"});
    if (check.code != 0) GTEST_SKIP() << check.output;
  }
  JobResult run(const std::string& script) {
    setenv("FOLDER", folder_.path().c_str(), 1);
    return testing::run_job({kHosts, "run", "3", "--", "bash", "-c", kPrelude + script});
  }
  // What a rank wrote on its own host.
  [[nodiscard]] std::string said_by(int rank) const {
    const std::string begin = folder_.path("output/1/rank." + std::to_string(rank) + "/");
    return read_file(begin + "stdout") + read_file(begin + "stderr");
  }
  TestFolder folder_;
};

// dp over three ranks; `steps` of some milliseconds each.
std::string run_file(int steps) {
  return fmt::format(R"([model]
layers = 2
hidden = 32
ffn = 48
heads = 4
kv_heads = 2
vocab = 256

[parallel]
dp = 3
zero = 1

[train]
seq_len = 32
micro_batch = 1
global_batch = 6
steps = {}
dtype = "f32"
threads = 1

[optimizer]
lr = 1e-2

[data]
synth = {{ seed = 7, bytes = 20000 }}
)",
                     steps);
}

std::vector<double> losses(const std::string& run_dir) {
  std::istringstream lines(read_file(run_dir + "/metrics.jsonl"));
  std::vector<double> losses;
  for (std::string line; std::getline(lines, line);) {
    losses.push_back(nlohmann::json::parse(line).at("loss"));
  }
  return losses;
}

TEST_F(MpiHostsTest, EveryRankHasAHostOfItsOwn) {
  const JobResult job = run("mpi hostname");
  EXPECT_EQ(job.code, 0) << job.output;
  for (const char* host : {"node1", "node2", "node3"}) {
    EXPECT_NE(job.output.find(host), std::string::npos) << job.output;
  }
}

TEST_F(MpiHostsTest, TransportWorksOverTcp) {
  const JobResult job = run("mpi " TESSERA_MPI_TRANSPORT_CHECK);
  EXPECT_EQ(job.code, 0) << job.output;
}

// Three nodes of one rank each, so hierarchical algorithms have another shape than on one host.
TEST_F(MpiHostsTest, SuitePassesOverTcp) {
  const JobResult job = run("mpi " TESSERA_MPI_SUITE " middle repeatable in_flight split");
  EXPECT_EQ(job.code, 0) << job.output;
}

TEST_F(MpiHostsTest, TrainingAcrossHostsGivesTheBitsOfThreads) {
  const std::string train = TESSERA_BINARY " train " + folder_.write("run.toml", run_file(6)) +
                            " --set logging.run_dir=" + folder_.path();
  const JobResult job = run("mpi " + train + "/hosts");
  ASSERT_EQ(job.code, 0) << job.output;
  EXPECT_NE(job.output.find("equal the plan"), std::string::npos) << job.output;
  const JobResult threads = run(train + "/threads --threads");
  ASSERT_EQ(threads.code, 0) << threads.output;
  const JobResult alone = run(train + "/alone --threads --set parallel.dp=1");
  ASSERT_EQ(alone.code, 0) << alone.output;

  const std::vector<double> found = losses(folder_.path("hosts"));
  const std::vector<double> expected = losses(folder_.path("alone"));
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found, losses(folder_.path("threads")));
  ASSERT_EQ(expected.size(), 6U);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6);
  EXPECT_LT(found.back(), found.front());
}

void expect_ended_in_time(const JobResult& job) {
  EXPECT_NE(job.code, -1) << "hangs";
  EXPECT_NE(job.code, 0) << job.output;
  EXPECT_EQ(job.left_behind, 0);
  EXPECT_LT(job.seconds, 25);
}

// By rank: the peer that it names, which is on the other side of the cut.
const char* const kOtherSide[] = {"rank 2 \\(pid [0-9]+ on node3\\)",
                                  "rank 2 \\(pid [0-9]+ on node3\\)",
                                  "rank [01] \\(pid [0-9]+ on node[12]\\)"};

// Neither side gets an error from the network: packets vanish. Both sides give up in time, and say
// on which host the others are.
TEST_F(MpiHostsTest, ACutHostIsNamedOnBothSides) {
  const JobResult job = run("mpi " TESSERA_MPI_FAILING_RANKS
                            " runs & \n"
                            "until_said running $FOLDER/output; $hosts cut node3; wait $!");
  expect_ended_in_time(job);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string pattern = std::string("waited 1\\.[0-9]+ s in .*") + kOtherSide[rank];
    EXPECT_TRUE(std::regex_search(said_by(rank), std::regex(pattern)))
        << "rank " << rank << " said: " << said_by(rank) << "\n"
        << job.output;
  }
}

TEST_F(MpiHostsTest, TrainingEndsWhenAHostIsCutOff) {
  const std::string run_dir = folder_.path("run");
  const JobResult job =
      run("mpi " TESSERA_BINARY " train " + folder_.write("run.toml", run_file(1'000'000)) +
          " --comm-timeout 1.5 --set logging.run_dir=" + run_dir +
          " & \n"
          "until_said '\"step\": *3,' " +
          run_dir + "/metrics.jsonl; $hosts cut node3; wait $!");
  expect_ended_in_time(job);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string pattern =
        fmt::format("error: rank {}: .*waited 1\\.5[0-9]+ s in .*{}", rank, kOtherSide[rank]);
    EXPECT_TRUE(std::regex_search(said_by(rank), std::regex(pattern)))
        << "rank " << rank << " said: " << said_by(rank) << "\n"
        << job.output;
  }
}

}  // namespace
}  // namespace tessera
