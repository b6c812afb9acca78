// MPI between three hosts of one machine (examples/multi_host/netns_hosts.sh): over TCP, with a
// cable that can be pulled.
#include <gtest/gtest.h>

#include <regex>

#include "mpi_job.h"

namespace tessera {
namespace {

using testing::JobResult;

const std::string kFolder = TESSERA_SOURCE_DIR "/examples/multi_host/";
const std::string kHosts = kFolder + "netns_hosts.sh";

// Shell functions for what runs beside the hosts.
const std::string kPrelude =
    "hosts=" + kHosts +
    "\n"
    "for host in node1 node2 node3; do echo \"$host slots=1\"; done > $FOLDER/hostfile\n"
    // mpi PROGRAM...: one rank on each host. Its temporary files go when the hosts do.
    "mpi() {\n"
    "  SSH=\"$hosts ssh\" OUTPUT=$FOLDER/output HOST_TIMEOUT=6 \\\n"
    "  MPIRUN_OPTIONS='--mca orte_tmpdir_base /dev/shm' \\\n"
    "  $hosts exec node1 " +
    kFolder +
    "ssh_run.sh $FOLDER/hostfile 10.77.0.0/24 -- \"$@\"\n"
    "}\n"
    // until_said TEXT: some rank has written it.
    "until_said() {\n"
    "  for i in $(seq 200); do grep -qs \"$1\" $FOLDER/output/*/rank.*/stdout && return; sleep "
    "0.1; done\n"
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
    return read_file(folder_.path("output/1/rank." + std::to_string(rank) + "/stdout"));
  }
  TestFolder folder_;
};

TEST_F(MpiHostsTest, EveryRankHasAHostOfItsOwn) {
  const JobResult job = run("mpi hostname");
  EXPECT_EQ(job.code, 0) << job.output;
  for (const std::string rank : {"0", "1", "2"}) {
    const std::string line = "[1," + rank + "]<stdout>:node" + std::to_string(std::stoi(rank) + 1);
    EXPECT_NE(job.output.find(line), std::string::npos) << job.output;
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

// Neither side gets an error from the network: packets vanish. Both sides give up in time, and say
// on which host the others are.
TEST_F(MpiHostsTest, ACutHostIsNamedOnBothSides) {
  const JobResult job = run("mpi " TESSERA_MPI_FAILING_RANKS
                            " runs & \n"
                            "until_said running; $hosts cut node3; wait $!");
  EXPECT_NE(job.code, -1) << "hangs";
  EXPECT_NE(job.code, 0) << job.output;
  EXPECT_EQ(job.left_behind, 0);
  EXPECT_LT(job.seconds, 25);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string other =
        rank == 2 ? "rank [01] \\(pid [0-9]+ on node[12]\\)" : "rank 2 \\(pid [0-9]+ on node3\\)";
    EXPECT_TRUE(std::regex_search(said_by(rank), std::regex("waited 1\\.[0-9]+ s in .*" + other)))
        << "rank " << rank << " said: " << said_by(rank) << "\n"
        << job.output;
  }
}

}  // namespace
}  // namespace tessera
