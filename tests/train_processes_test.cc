// Training over processes: the same bits as over threads, and an end in order whatever happens.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "support/command.h"
#include "support/processes.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests
using nlohmann::json;

// The run is tiny, and the kernel counts whom it ends for want of memory.
const std::regex kKilledBySomebody(
    "; not by the kernel for want of memory \\(planned [0-9.]+ [KMG]iB, (the machine|its control "
    "group) has [0-9.]+ [GT]iB\\): another process did it");

// Far above what ending takes; a job that hangs is above it too.
constexpr std::chrono::seconds kEndTime{10};

class TrainProcessesTest : public CommandTest {
 protected:
  TrainProcessesTest() { folder_.write("run.toml", tiny_run_file()); }

  [[nodiscard]] json read_json(const std::string& name) const {
    return json::parse(read_file(folder_.path(name)));
  }
  [[nodiscard]] std::vector<json> metrics(const std::string& run_dir) const {
    return read_metrics(folder_.path(run_dir + "/metrics.jsonl"));
  }
  [[nodiscard]] bool has_trained(const std::string& run_dir) const {
    const std::string file = folder_.path(run_dir + "/metrics.jsonl");
    return std::filesystem::exists(file) && std::filesystem::file_size(file) > 500;
  }
  [[nodiscard]] bool same_weights(const std::string& one, const std::string& other) const {
    const std::string bytes = read_file(folder_.path(one + "/model.safetensors"));
    return !bytes.empty() && bytes == read_file(folder_.path(other + "/model.safetensors"));
  }
};

// One line, no more.
void expect_one_line(const std::string& text) {
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

struct Case {
  const char* mesh;
  const char* dtype;

  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.mesh << ' ' << one.dtype; }
};

// "dp_2_tp_2_f32": what names of tests may hold.
std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  std::string name = fmt::format("{}_{}", info.param.mesh, info.param.dtype);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '=' || c == ','; }, '_');
  return name;
}

class SameBitsTest : public TrainProcessesTest, public ::testing::WithParamInterface<Case> {};

TEST_P(SameBitsTest, AsOverThreadsAndAsPlanned) {
  const std::string line =
      fmt::format("train run.toml -q --set train.steps=3 --set train.dtype={} --mesh {} ",
                  GetParam().dtype, GetParam().mesh);
  succeed(line + "--set logging.run_dir=threads --threads");
  const CommandResult result = succeed(line + "--set logging.run_dir=processes");
  EXPECT_NE(result.out.find("equal the plan"), std::string::npos) << result.out;
  EXPECT_EQ(result.err, "");

  EXPECT_TRUE(same_weights("processes", "threads"));
  const std::vector<json> here = metrics("processes"), there = metrics("threads");
  ASSERT_EQ(here.size(), 3U);
  ASSERT_EQ(there.size(), 3U);
  for (size_t step = 0; step < 3; ++step) {
    for (const char* key : {"step", "loss", "lr", "grad_norm", "tokens"}) {
      EXPECT_EQ(here[step].at(key), there[step].at(key)) << key << " of line " << step;
    }
  }
  EXPECT_EQ(read_json("processes/plan.json"), read_json("threads/plan.json"));
  const json summary = read_json("processes/summary.json");
  EXPECT_EQ(summary.at("ranks"), read_json("processes/plan.json").at("ranks"));
  EXPECT_EQ(summary.at("backend"), "shm");
  EXPECT_EQ(read_json("threads/summary.json").at("backend"), "local");
}

INSTANTIATE_TEST_SUITE_P(Meshes, SameBitsTest,
                         ::testing::Values(Case{"dp=2", "f32"}, Case{"tp=2", "bf16"},
                                           Case{"tp=2", "f32"}, Case{"fsdp=2,zero=3", "f32"},
                                           Case{"fsdp=2,zero=3", "bf16"}, Case{"dp=2,tp=2", "f32"},
                                           Case{"dp=2,tp=2,zero=2", "bf16"},
                                           Case{"dp=2,fsdp=2,zero=3", "f64"}, Case{"cp=2", "bf16"},
                                           Case{"cp=4,cp_kind=allgather", "f32"},
                                           Case{"cp=2,tp=2,cp_kind=ulysses", "f32"}),
                         name_of_case);

TEST_F(TrainProcessesTest, OneRankNeedsNoProcesses) {
  succeed("train run.toml -q --mesh dp=1");
  EXPECT_EQ(read_json("out/summary.json").at("backend"), "local");
  succeed("train run.toml -q --mesh dp=1 --backend shm --overwrite");
  EXPECT_EQ(read_json("out/summary.json").at("backend"), "shm");
}

TEST_F(TrainProcessesTest, AKilledRankEndsTheJob) {
  for (const int victim : {0, 3}) {
    SCOPED_TRACE(victim);
    const std::string run_dir = fmt::format("out{}", victim);
    Command command(folder_, words_of("train run.toml -q --set train.steps=1000000 --set "
                                      "logging.run_dir=" +
                                      run_dir));
    ASSERT_TRUE(wait_until([&] { return has_trained(run_dir); }));
    const std::map<int, pid_t> ranks = ranks_of(command.pid());
    ASSERT_EQ(ranks.size(), 4U);
    const auto killed_at = std::chrono::steady_clock::now();
    ::kill(ranks.at(victim), SIGKILL);
    const CommandResult result = command.finish();
    EXPECT_LT(std::chrono::steady_clock::now() - killed_at, kEndTime);
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.out, "");
    expect_one_line(result.err);
    const std::string who = fmt::format("rank {} (pid {})", victim, ranks.at(victim));
    EXPECT_NE(result.err.find(who), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("killed by SIGKILL"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(" of group "), std::string::npos) << "not said where: " << result.err;
    EXPECT_TRUE(std::regex_search(result.err, kKilledBySomebody)) << result.err;
    for (const auto& [rank, pid] : ranks) EXPECT_FALSE(is_running(pid)) << "orphan: rank " << rank;
    EXPECT_FALSE(std::filesystem::exists(folder_.path(run_dir + "/summary.json")));
    EXPECT_FALSE(metrics(run_dir).empty());
  }
}

TEST_F(TrainProcessesTest, NothingIsLeftWhenTheAgentIsKilled) {
  Command command(folder_, words_of("train run.toml -q --set train.steps=1000000"));
  ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
  const std::map<int, pid_t> ranks = ranks_of(command.pid());
  ASSERT_EQ(ranks.size(), 4U);
  command.signal(SIGKILL);
  command.finish();
  EXPECT_TRUE(wait_until(
      [&] {
        return std::none_of(ranks.begin(), ranks.end(),
                            [](const auto& rank) { return is_running(rank.second); });
      },
      kEndTime));
}

TEST_F(TrainProcessesTest, ASignalEndsTheRunInOrder) {
  for (const auto& [signal, code, name] :
       {std::tuple(SIGINT, 130, "^C"), std::tuple(SIGTERM, 143, "SIGTERM"),
        std::tuple(SIGHUP, 129, "SIGHUP")}) {
    for (const std::string how : {"", "--threads"}) {
      SCOPED_TRACE(name + how);
      std::filesystem::remove_all(folder_.path("out"));
      Command command(folder_, words_of("train run.toml -q --set train.steps=1000000 " + how));
      ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
      const std::map<int, pid_t> ranks = ranks_of(command.pid());
      EXPECT_EQ(ranks.size(), how.empty() ? 4U : 0U);
      const auto asked_at = std::chrono::steady_clock::now();
      command.signal(signal);
      const CommandResult result = command.finish();
      EXPECT_LT(std::chrono::steady_clock::now() - asked_at, kEndTime);
      EXPECT_EQ(result.code, code) << result.err;
      // On a slow machine the step at hand is announced before.
      EXPECT_TRUE(result.err.ends_with(
          fmt::format("tessera: stopped by {} after step {}; its weights are in out\n", name,
                      metrics("out").size())))
          << result.err;
      EXPECT_NE(result.out.find("equal the plan"), std::string::npos) << result.out;
      const json summary = read_json("out/summary.json");
      EXPECT_EQ(summary.at("steps"), metrics("out").size());
      EXPECT_EQ(summary.at("ranks"), read_json("out/plan.json").at("ranks"));
      EXPECT_TRUE(std::filesystem::exists(folder_.path("out/model.safetensors")));
      for (const auto& [rank, pid] : ranks) EXPECT_FALSE(is_running(pid)) << "rank " << rank;
    }
  }
}

// A step may take longer than --grace, and a rank may have been stopped in the middle of one.
TEST_F(TrainProcessesTest, ASignalLosesNothingHoweverShortTheGrace) {
  for (const bool stopped : {false, true}) {
    std::filesystem::remove_all(folder_.path("out"));
    Command command(folder_, words_of("train run.toml -q --grace 0 --set train.steps=1000000"));
    ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
    if (stopped) ::kill(ranks_of(command.pid()).at(2), SIGSTOP);
    command.signal(SIGTERM);
    const CommandResult result = command.finish();
    EXPECT_EQ(result.code, 143) << result.err;
    EXPECT_EQ(read_json("out/summary.json").at("steps"), metrics("out").size());
    EXPECT_TRUE(std::filesystem::exists(folder_.path("out/model.safetensors"))) << result.err;
  }
}

TEST_F(TrainProcessesTest, ASignalForOneRankEndsAllInOrder) {
  Command command(folder_, words_of("train run.toml -q --set train.steps=1000000"));
  ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
  ::kill(ranks_of(command.pid()).at(2), SIGTERM);
  const CommandResult result = command.finish();
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_EQ(result.err, fmt::format("tessera: stopped by SIGTERM after step {}; its weights are in "
                                    "out\n",
                                    metrics("out").size()));
  EXPECT_TRUE(std::filesystem::exists(folder_.path("out/model.safetensors")));
}

// A shell that connects the output to a reader which goes away at once.
TEST_F(TrainProcessesTest, AReaderThatGoesAwayCostsNothing) {
  for (const std::string more : {" -q 2>err", " 2>&1"}) {
    std::filesystem::remove_all(folder_.path("out"));
    const std::string line = std::string(TESSERA_BINARY) + " train run.toml" + more +
                             " | true; echo ${PIPESTATUS[0]} >code";
    CommandOptions shell;
    shell.program = "/bin/bash";
    const CommandResult result = Command(folder_, {"-c", line}, shell).finish();
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(read_file(folder_.path("code")), "141\n");
    EXPECT_TRUE(std::filesystem::exists(folder_.path("out/model.safetensors"))) << more;
  }
  EXPECT_EQ(read_file(folder_.path("err")), "");
}

TEST_F(TrainProcessesTest, ARunDirectoryThatIsRemovedIsMadeAgain) {
  Command command(folder_, words_of("train run.toml -q --set train.steps=1000000"));
  ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
  std::filesystem::remove_all(folder_.path("out"));
  ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
  command.signal(SIGINT);
  const CommandResult result = command.finish();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_NE(result.err.find("the run directory 'out' was removed: it was made again"),
            std::string::npos)
      << result.err;
  for (const char* name : {"resolved.json", "plan.json", "summary.json", "model.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path(std::string("out/") + name))) << name;
  }
}

TEST_F(TrainProcessesTest, ARunDirectoryThatIsMadeAgainIsStillTheRuns) {
  for (const std::string how : {"", " --threads"}) {
    std::filesystem::remove_all(folder_.path("out"));
    Command command(folder_, words_of("train run.toml -q --set train.steps=1000000" + how));
    ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
    std::filesystem::remove_all(folder_.path("out"));
    ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
    const CommandResult second = run("train run.toml -q");
    EXPECT_EQ(second.code, 2);
    EXPECT_NE(second.err.find("the run directory 'out' is in use by pid "), std::string::npos)
        << second.err;
    command.signal(SIGINT);
    EXPECT_EQ(command.finish().code, 130);
    EXPECT_FALSE(std::filesystem::exists(folder_.path("out/run.lock")));
  }
}

TEST_F(TrainProcessesTest, ARunDirectoryThatAnotherRunHasTakenIsLeftToIt) {
  succeed("train run.toml -q --set logging.run_dir=other");
  const std::string others = read_file(folder_.path("other/model.safetensors"));
  CommandOptions options;
  options.environment = {"TMPDIR=" + folder_.path("spare")};
  Command command(folder_, words_of("train run.toml -q --set train.steps=1000000"), options);
  ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
  std::filesystem::rename(folder_.path("out"), folder_.path("moved"));
  std::filesystem::rename(folder_.path("other"), folder_.path("out"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  command.signal(SIGINT);
  const CommandResult result = command.finish();
  EXPECT_NE(result.err.find("'out' holds another run now (model.safetensors)"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("instead: move them from there"), std::string::npos) << result.err;
  EXPECT_EQ(read_file(folder_.path("out/model.safetensors")), others);
  EXPECT_EQ(metrics("out").size(), 2U);
}

TEST_F(TrainProcessesTest, WeightsThatTheRunDirectoryDoesNotTakeGoElsewhere) {
  for (const std::string how : {"", " --threads"}) {
    std::filesystem::remove_all(folder_.path("out"));
    std::filesystem::remove_all(folder_.path("spare"));
    CommandOptions options;
    options.environment = {"TMPDIR=" + folder_.path("spare")};
    Command command(folder_, words_of("train run.toml -q --set train.steps=1000000" + how),
                    options);
    ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
    // A file in place of the folder: it cannot be made again.
    std::filesystem::rename(folder_.path("out"), folder_.path("moved"));
    folder_.write("out", "");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    command.signal(SIGINT);
    const CommandResult result = command.finish();
    EXPECT_EQ(result.code, how.empty() ? 130 : 1) << result.err;
    EXPECT_NE(result.err.find("the run goes on without metrics"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("instead: move them from there"), std::string::npos) << result.err;
    bool rescued = false;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path("spare"))) {
      rescued = rescued || entry.path().filename() == "model.safetensors";
    }
    EXPECT_TRUE(rescued);
    std::filesystem::remove_all(folder_.path("moved"));
  }
}

TEST_F(TrainProcessesTest, DivergenceOfOneRankIsOneMessage) {
  const CommandResult result =
      run("train run.toml -q --inject nan:tensor=layers.1.q,step=2,rank=3");
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.out, "");
  expect_one_line(result.err);
  EXPECT_TRUE(
      result.err.starts_with("tessera: error: numeric divergence at step 2: the first "
                             "tensor that is not finite is 'layers.1.q'"))
      << result.err;
  EXPECT_NE(result.err.find("on rank 3 (dp1 tp1)"), std::string::npos) << result.err;
  const std::vector<json> lines = metrics("out");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1].at("event"), "nan");
  EXPECT_NE(result.err.find("the weights of step 1 are unchanged and saved in 'out'"),
            std::string::npos)
      << result.err;
  EXPECT_TRUE(std::filesystem::exists(folder_.path("out/model.safetensors")));
}

TEST_F(TrainProcessesTest, DivergenceKeepsTheWeightsBeforeIt) {
  const std::string line =
      "train run.toml -q --set optimizer.lr=0.01 --set optimizer.min_lr=0.01 --set "
      "optimizer.warmup=0 ";
  succeed(line + "--set train.steps=3 --set logging.run_dir=three");
  const std::string nan = "--inject nan:tensor=layers.1.q,step=4,rank=3 ";
  for (const std::string how : {"", "--threads"}) {
    EXPECT_EQ(run(line + "--overwrite --set train.steps=9 " + nan + how).code, 4);
    EXPECT_TRUE(same_weights("out", "three")) << how;
  }
}

TEST_F(TrainProcessesTest, WeightsThatNobodyTrainedAreNotSaved) {
  const CommandResult result =
      run("train run.toml -q --inject nan:tensor=layers.1.q,step=1,rank=3");
  EXPECT_EQ(result.code, 4);
  EXPECT_NE(result.err.find("no step was done, so no weights were saved"), std::string::npos)
      << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.path("out/model.safetensors")));
}

TEST_F(TrainProcessesTest, AMistakeInTheRunStartsNothing) {
  for (const std::string mistake :
       {"--set train.stpes=3", "--ranks 3", "--set data.path=nowhere", "--inject nan:oops",
        "--threads --backend shm", "--backend mpi"}) {
    const CommandResult result = run("train run.toml --log-dir logs " + mistake);
    EXPECT_EQ(result.code, 2) << mistake;
    expect_one_line(result.err);
    EXPECT_FALSE(std::filesystem::exists(folder_.path("logs"))) << mistake;
    EXPECT_FALSE(std::filesystem::exists(folder_.path("out"))) << mistake;
  }
}

TEST_F(TrainProcessesTest, AMistakeIsOneMessageAndNoRanks) {
  CommandResult result = run("train run.toml -q --set data.synth.bytes=5");
  EXPECT_EQ(result.code, 2);
  expect_one_line(result.err);
  folder_.write("file", "");
  result = run("train run.toml -q --set logging.run_dir=file/out");
  EXPECT_EQ(result.code, 2);
  expect_one_line(result.err);
  EXPECT_NE(result.err.find("error: cannot write in the run directory 'file/out'"),
            std::string::npos)
      << result.err;
}

TEST_F(TrainProcessesTest, OutputGoesToAFilePerRank) {
  const CommandResult result = succeed("train run.toml --log-dir logs");
  const std::string log = read_file(folder_.path("logs/rank-0.log"));
  for (const std::string words : {"equal the plan", "step 2/2", "out: loss "}) {
    EXPECT_NE(log.find(words), std::string::npos) << words << " in\n" << log;
    EXPECT_NE((result.out + result.err).find(words), std::string::npos) << words;
  }
  EXPECT_NE(result.out.find("equal the plan"), std::string::npos) << result.out;
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(read_file(folder_.path(fmt::format("logs/rank-{}.log", rank))), "");
  }
}

// Ranks that somebody starts one by one, as torchrun does.
class StartedRanksTest : public TrainProcessesTest {
 protected:
  std::vector<std::unique_ptr<Command>> start(int count, const std::string& line,
                                              const std::string& more_of_rank_one = "") {
    std::vector<std::unique_ptr<Command>> commands;
    for (int rank = 0; rank < count; ++rank) {
      CommandOptions options;
      options.environment = {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", count),
                             "TESSERA_RENDEZVOUS_FILE=" + folder_.path("meeting")};
      options.output = std::to_string(rank);
      commands.push_back(std::make_unique<Command>(
          folder_, words_of(line + (rank == 1 ? more_of_rank_one : "")), options));
    }
    return commands;
  }
};

TEST_F(StartedRanksTest, TrainToTheSameBits) {
  succeed("train run.toml -q --threads --mesh dp=2 --set logging.run_dir=threads");
  auto commands = start(2, "train run.toml -q --mesh dp=2");
  for (size_t rank = 0; rank < commands.size(); ++rank) {
    const CommandResult result = commands[rank]->finish();
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(result.out.empty(), rank != 0) << result.out;
  }
  EXPECT_TRUE(same_weights("out", "threads"));
}

TEST_F(StartedRanksTest, ASignalForOneRankEndsAllInOrder) {
  auto commands = start(2, "train run.toml -q --mesh dp=2 --grace 0 --set train.steps=1000000");
  ASSERT_TRUE(wait_until([&] { return has_trained("out"); }));
  commands[1]->signal(SIGHUP);
  for (const auto& command : commands) {
    const CommandResult result = command->finish();
    EXPECT_EQ(result.code, 129) << result.err;
  }
  EXPECT_EQ(read_json("out/summary.json").at("steps"), metrics("out").size());
  EXPECT_TRUE(std::filesystem::exists(folder_.path("out/model.safetensors")));
}

// Each has its own standard error here, so each of them says it.
TEST_F(StartedRanksTest, SayAMistakeThatTheyAloneHave) {
  auto commands =
      start(2, "train run.toml -q --mesh dp=2 --comm-timeout 3", " --set data.path=nowhere");
  const CommandResult one = commands[1]->finish(), zero = commands[0]->finish();
  EXPECT_EQ(one.code, 2);
  EXPECT_EQ(one.err.find("tessera: error: rank 1: data 'nowhere' does not exist"), 0U) << one.err;
  EXPECT_EQ(zero.code, 1);
  EXPECT_NE(zero.err.find("rank 1 of 2 did not come"), std::string::npos) << zero.err;
}

TEST_F(StartedRanksTest, RefuseToRunDifferentThings) {
  auto commands = start(2, "train run.toml -q --mesh dp=2", " --set optimizer.lr=0.5");
  const CommandResult zero = commands[0]->finish(), one = commands[1]->finish();
  EXPECT_EQ(one.code, 2) << one.err;
  EXPECT_EQ(one.err,
            "tessera: error: rank 1: optimizer.lr is 0.5 on rank 1 but 0.01 on rank 0: start every "
            "rank with the same run file and flags\n");
  EXPECT_EQ(zero.code, 1) << zero.err;
  EXPECT_NE(zero.err.find("optimizer.lr is 0.5 on rank 1"), std::string::npos) << zero.err;
}

TEST_F(StartedRanksTest, MustBeAsManyAsTheMeshHas) {
  for (const auto& [names, launcher] :
       {std::pair(std::pair("RANK", "WORLD_SIZE"), "torchrun variables"),
        std::pair(std::pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                  "mpirun (Open MPI)")}) {
    for (const int rank : {0, 1}) {
      CommandOptions options;
      options.environment = {fmt::format("{}={}", names.first, rank),
                             fmt::format("{}=3", names.second), "MASTER_ADDR=localhost",
                             "MASTER_PORT=29500"};
      const CommandResult result = Command(folder_, words_of("train run.toml"), options).finish();
      EXPECT_EQ(result.code, 2);
      const std::string expected =
          fmt::format("tessera: error: {}the mesh dp=2 x tp=2 needs 4 ranks but {} started 3;",
                      rank == 0 ? "" : "rank 1: ", launcher);
      EXPECT_TRUE(result.err.starts_with(expected)) << result.err;
    }
  }
}

}  // namespace
}  // namespace tessera
