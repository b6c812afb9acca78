// Rows 22 and 23 of the matrix of faults: three hosts that are network namespaces
// (examples/multi_host/netns_hosts.sh), and a network between them that fails. Host K is node K+1,
// with one rank; host 2 is a spare.
#include "faults/hosts_run.h"

namespace tessera::testing {
namespace {

const std::string kHosts = TESSERA_SOURCE_DIR "/examples/multi_host/netns_hosts.sh";

// Shell functions for what runs beside the hosts.
const std::string kPrelude =
    "hosts=" + kHosts +
    R"(
export TESSERA_RUN_TOKEN=a-secret-of-this-test
# host K FLAGS...: the agent of host K, to its end; its exit code is in host-K.code
host() {
  local k=$1 code=0; shift
  $hosts exec node$((k + 1)) )" +
    TESSERA_BINARY +
    R"( train run.toml -q --set logging.run_dir=out --resume auto --restarts 2 --hosts 2 --host-rank $k \
    --meet 10.77.0.1:29500 "$@" >host-$k.out 2>host-$k.err || code=$?
  echo $code >host-$k.code
}
# until_true SECONDS COMMAND...
until_true() {
  local tries=$(($1 * 20)); shift
  while ! "$@"; do
    ((tries-- > 0)) || { echo "in vain: $*"; exit 9; }
    sleep 0.05
  done
}
steps() { [[ $(wc -l <out/metrics.jsonl) -ge $1 ]]; } 2>/dev/null
ended() { for k in "$@"; do [[ -s host-$k.code ]] || return 1; done; }
pid_of_rank() {
  local process
  for process in /proc/[0-9]*; do
    if tr '\0' '\n' <$process/environ | grep -qx "TESSERA_RANK=$1"; then echo ${process#/proc/}; fi
  done 2>/dev/null
}
gone() { [[ ! -e /proc/$1 ]]; }
)";

class PartitionTest : public HostsTest {
 protected:
  void SetUp() override {
    const CommandResult check = shell({"check"});
    if (check.code != 0) GTEST_SKIP() << check.err;
  }
  CommandResult shell(const std::vector<std::string>& args) {
    CommandOptions options = with_fault("step.begin:generation=0,act=delay=250");
    options.program = kHosts;
    return Command(folder_, args, options).finish();
  }
  void run_script(const std::string& script) {
    const CommandResult result = shell({"run", "3", "--", "bash", "-c", kPrelude + script});
    ASSERT_EQ(result.code, 0) << result.out << result.err << errors();
  }
  [[nodiscard]] int code_of(int host) const {
    return std::stoi(read_file(folder_.path(fmt::format("host-{}.code", host))));
  }
  [[nodiscard]] std::string error_of(int host) const {
    return read_file(folder_.path(fmt::format("host-{}.err", host)));
  }
  [[nodiscard]] std::string errors() const {
    std::string text;
    for (const int host : {0, 1, 2}) {
      if (!std::filesystem::exists(folder_.path(fmt::format("host-{}.err", host)))) continue;
      text += fmt::format("\nhost {}:\n{}", host, error_of(host));
    }
    return text;
  }
};

TEST_F(PartitionTest, Row22TheSideOfTheCoordinatorGoesOnAndTheOtherHasStoppedBefore) {
  run_script(R"(
host 0 --host-lease 4 & host 1 --host-lease 4 --host-wait 8 & host 2 --host-lease 4 &
until_true 30 steps 3
rank=$(pid_of_rank 1)
$hosts cut node2
until_true 30 gone $rank
date +%s.%N >stopped_at
until_true 40 ended 0 1 2
)");
  EXPECT_EQ(code_of(0), 0) << errors();
  EXPECT_EQ(code_of(2), 0) << errors();
  EXPECT_EQ(code_of(1), 75) << errors();
  expect_same_run();
  expect_verdict({.verdict = "partitioned", .rank = 1});
  EXPECT_EQ(events("verdict").size(), 1U);
  ASSERT_EQ(events("restart").size(), 1U) << errors();
  EXPECT_LT(std::stod(read_file(folder_.path("stopped_at"))),
            events("restart")[0].at("time").get<double>());
  EXPECT_NE(error_of(1).find("the ranks of this host are ended"), std::string::npos) << errors();
}

TEST_F(PartitionTest, Row22ACoordinatorThatIsCutOffEndsWith69AndTheOthersWith75) {
  run_script(R"(
for k in 0 1 2; do host $k --host-lease 4 --host-wait 8 & done
until_true 30 steps 3
$hosts cut node1
until_true 40 ended 0 1 2
)");
  EXPECT_EQ(code_of(0), 69) << errors();
  EXPECT_EQ(code_of(1), 75) << errors();
  EXPECT_EQ(code_of(2), 75) << errors();
  EXPECT_TRUE(events("restart").size() <= 1) << errors();
  expect_good_checkpoints();
  // Whoever starts the hosts starts them again, when the cable is in.
  run_script(R"(
rm host-*.code
for k in 0 1; do host $k & done
until_true 40 ended 0 1
)");
  EXPECT_EQ(code_of(0), 0) << errors();
  expect_same_run();
}

TEST_F(PartitionTest, Row23AOneWayPartitionIsOneVerdictAndTheHostComesBack) {
  run_script(R"(
for k in 0 1; do host $k --host-lease 4 & done
until_true 30 steps 3
$hosts exec node2 ip route add blackhole 10.77.0.1/32
sleep 8
$hosts exec node2 ip route del blackhole 10.77.0.1/32
until_true 40 ended 0 1
)");
  EXPECT_EQ(code_of(0), 0) << errors();
  EXPECT_EQ(code_of(1), 0) << errors();
  expect_same_run();
  expect_verdict({.verdict = "partitioned", .rank = 1});
  EXPECT_EQ(events("verdict").size(), 1U)
      << errors() << read_file(folder_.path("out/events.jsonl"));
  EXPECT_EQ(events("restart").size(), 1U);
}

TEST_F(PartitionTest, Row23AFlapWithinTheLeaseIsNoLoss) {
  run_script(R"(
for k in 0 1; do host $k --host-lease 40 & done
until_true 30 steps 3
$hosts cut node2
sleep 5
$hosts heal node2
until_true 40 ended 0 1
)");
  EXPECT_EQ(code_of(0), 0) << errors();
  EXPECT_EQ(code_of(1), 0) << errors();
  expect_same_run();
  EXPECT_TRUE(events("verdict").empty());
  EXPECT_TRUE(events("restart").empty());
}

}  // namespace
}  // namespace tessera::testing
