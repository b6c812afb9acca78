// The program as a user meets it: commands, files, streams, exit codes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "support/command.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests
using nlohmann::json;

class CliTest : public CommandTest {
 protected:
  CliTest() { folder_.write("run.toml", tiny_run_file()); }
  [[nodiscard]] bool exists(const std::string& name) const {
    return std::filesystem::exists(folder_.path(name));
  }
  [[nodiscard]] double loss_at(const std::string& run_dir, size_t step) const {
    return read_metrics(folder_.path(run_dir + "/metrics.jsonl")).at(step - 1).at("loss");
  }
};

TEST_F(CliTest, VersionHelpAndCompletion) {
  EXPECT_TRUE(succeed("--version").out.starts_with("tessera "));
  for (const std::string command : {"", "plan", "simulate", "train", "verify", "generate", "data",
                                    "data synth", "doctor", "completion"}) {
    EXPECT_TRUE(succeed(command + " --help").out.starts_with("Example: ")) << command;
  }
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string script =
        folder_.write("completion." + shell, succeed("completion " + shell).out);
    EXPECT_GT(std::filesystem::file_size(script), 500U);
    // bash is there wherever the tests are built; the others are checked where they are installed.
    const std::string check =
        fmt::format("command -v {0} > /dev/null || exit 0; {0} -n {1}", shell, script);
    EXPECT_EQ(std::system(check.c_str()), 0) << shell;
  }
}

// The keys that other programs may rely on.
void expect_report(const json& report, size_t world) {
  EXPECT_EQ(report.at("schema_version"), 2);
  EXPECT_EQ(report.at("world"), world);
  EXPECT_EQ(report.at("mesh").at("dp"), 2);
  EXPECT_EQ(report.at("mesh").at("tp"), 2);
  EXPECT_GT(report.at("parameters"), 0);
  ASSERT_EQ(report.at("ranks").size(), world);
  for (size_t rank = 0; rank < world; ++rank) {
    const json& entry = report["ranks"][rank];
    EXPECT_EQ(entry.at("rank"), rank);
    EXPECT_EQ(entry.at("coords").at("dp"), rank / 2);
    EXPECT_EQ(entry.at("coords").at("tp"), rank % 2);
    int64_t sum = 0;
    for (const char* key :
         {"parameters", "gradients", "optimizer", "activations", "communication", "workspace"}) {
      sum += entry.at("memory_bytes").at(key).get<int64_t>();
    }
    EXPECT_EQ(entry.at("memory_bytes").at("total"), sum);
    EXPECT_FALSE(entry.at("traffic").empty());
    for (const json& traffic : entry["traffic"]) {
      EXPECT_TRUE(traffic.at("group").is_string());
      EXPECT_TRUE(traffic.at("op").is_string());
      EXPECT_GT(traffic.at("calls"), 0);
      EXPECT_GT(traffic.at("bytes_sent"), 0);
    }
    EXPECT_GT(entry.at("instructions"), 0);
    EXPECT_TRUE(entry.at("digest").is_string());
  }
}

TEST_F(CliTest, PlanAndTrainPrintTheSameReport) {
  const json plan = succeed("plan run.toml --json").json();
  expect_report(plan, 4);
  const CommandResult trained = succeed("train run.toml --json");
  expect_report(trained.json(), 4);
  EXPECT_EQ(plan.at("ranks"), trained.json().at("ranks"));
  EXPECT_EQ(trained.json().at("steps"), 2);
  EXPECT_NE(trained.err.find("step 2/2"), std::string::npos) << trained.err;
  EXPECT_EQ(succeed("train run.toml --quiet --json --set logging.run_dir=quiet").err, "");
}

TEST_F(CliTest, ADryRunWritesNothing) {
  expect_report(succeed("train run.toml --dry-run --json").json(), 4);
  EXPECT_FALSE(exists("out"));
}

TEST_F(CliTest, ARunLeavesItsFilesAndCanBeRepeated) {
  const CommandResult first = succeed("train run.toml");
  EXPECT_NE(first.out.find("equal the plan"), std::string::npos) << first.out;
  for (const std::string file :
       {"config.toml", "resolved.json", "resolved.toml", "plan.json", "metrics.jsonl",
        "summary.json", "model.safetensors", "config.json"}) {
    EXPECT_TRUE(exists("out/" + file)) << file;
  }
  EXPECT_EQ(read_file(folder_.path("out/config.toml")), tiny_run_file());
  EXPECT_EQ(json::parse(read_file(folder_.path("out/resolved.json")))["train"]["steps"], 2);
  const std::string weights = read_file(folder_.path("out/model.safetensors"));
  const double loss = loss_at("out", 2);

  succeed("train run.toml --overwrite");
  EXPECT_EQ(read_file(folder_.path("out/model.safetensors")), weights) << "not deterministic";
  EXPECT_EQ(read_metrics(folder_.path("out/metrics.jsonl")).size(), 2U);
  EXPECT_EQ(loss_at("out", 2), loss);
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path("out"))) {
    EXPECT_FALSE(entry.path().string().ends_with(".tmp")) << entry.path();
  }
}

TEST_F(CliTest, SynthIsDeterministicAndExact) {
  const std::string text = succeed("data synth --seed 3 --bytes 12345").out;
  EXPECT_EQ(text.size(), 12345U);
  EXPECT_EQ(succeed("data synth --seed 3 --bytes 12345").out, text);
  EXPECT_NE(succeed("data synth --seed 4 --bytes 12345").out, text);
  succeed("data synth --seed 3 --bytes 12345 -o stories.txt");
  EXPECT_EQ(read_file(folder_.path("stories.txt")), text);
}

TEST_F(CliTest, RanksAgreeOnWhatAutoMeans) {
  succeed("train run.toml --mesh dp=2 --set train.device=auto");
}

TEST_F(CliTest, TrainsOnAFileAndOnAFolder) {
  succeed("data synth --seed 7 --bytes 20000 -o stories.txt");
  succeed("train run.toml --set logging.run_dir=synth");
  succeed("train run.toml --set data.path=stories.txt --set logging.run_dir=file");
  std::filesystem::create_directory(folder_.path("texts"));
  std::filesystem::copy(folder_.path("stories.txt"), folder_.path("texts/a.txt"));
  succeed("train run.toml --set data.path=texts --set logging.run_dir=folder");
  EXPECT_EQ(loss_at("file", 2), loss_at("synth", 2)) << "the same text";
  EXPECT_EQ(loss_at("folder", 2), loss_at("synth", 2)) << "the same text";
}

TEST_F(CliTest, GeneratesTheSameTextForTheSameSeed) {
  succeed("train run.toml");
  const std::string command = "generate --run out --tokens 20 --prompt Once --json";
  const json first = succeed(command).json();
  EXPECT_EQ(first.at("schema_version"), 1);
  EXPECT_TRUE(first.at("text").get<std::string>().starts_with("Once"));
  EXPECT_EQ(succeed(command).json(), first);
  EXPECT_NE(succeed(command + " --seed 2").json(), first);
  EXPECT_EQ(succeed(command + " --seed 2 --temperature 0").json(),
            succeed(command + " --temperature 0").json());
}

// A token costs the text before it, not the longest that the model could read; how long a text the
// program is compiled for changes nothing.
TEST_F(CliTest, AShortTextDoesNotPayForALongWindow) {
  succeed("train run.toml");
  json resolved = json::parse(read_file(folder_.path("out/resolved.json")));
  std::set<std::string> texts;
  for (const int window : {48, 64, 1 << 20}) {
    resolved["train"]["seq_len"] = window;
    resolved["model"]["max_positions"] = 1 << 20;
    folder_.write("out/resolved.json", resolved.dump());
    texts.insert(succeed("generate --run out --tokens 20 --prompt", {std::string(28, 'a')}).out);
  }
  EXPECT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts.begin()->size(), 49U);
}

// A size that no machine has: whoever took memory before looking at the file could not say this.
TEST_F(CliTest, GenerateComparesShapesBeforeMemoryIsTaken) {
  succeed("train run.toml");
  json resolved = json::parse(read_file(folder_.path("out/resolved.json")));
  resolved["model"]["ffn"] = 1'000'000'000;
  folder_.write("out/resolved.json", resolved.dump());
  const CommandResult result = run("generate --run out --prompt a");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("but the model needs "), std::string::npos) << result.err;
}

TEST_F(CliTest, WeightsThatAreNotFiniteSayNothing) {
  succeed("train run.toml");
  std::string bytes = read_file(folder_.path("out/model.safetensors"));
  ASSERT_GT(bytes.size(), 4000U);
  const float nan = std::nanf("");
  for (size_t at = bytes.size() - 2000; at + 4 <= bytes.size(); at += 4) {
    std::memcpy(bytes.data() + at, &nan, sizeof(nan));
  }
  folder_.write("out/model.safetensors", bytes);
  const CommandResult result = run("generate --run out --prompt a");
  EXPECT_EQ(result.code, 4) << result.out;
  EXPECT_NE(result.err.find("weights hold NaN or Inf"), std::string::npos) << result.err;
  const CommandResult trained = run("train run.toml --set model.hf=out --set logging.run_dir=two");
  EXPECT_EQ(trained.code, 4);
  EXPECT_NE(trained.err.find("the weights that it began with are not finite"), std::string::npos)
      << trained.err;
}

// Whoever wrote a name, a terminal shows it and does not obey it.
TEST_F(CliTest, NothingFromOutsideReachesTheTerminalRaw) {
  const std::string evil = "x\x1b]0;owned\x07\xc2\x9b\xe2\x80\xae\x7f";
  const std::string toml = R"("x\u001B]0;owned\u0007\u009B\u202E\u007F")";
  const std::string base = tiny_run_file();
  folder_.write("key.toml", base + "\n[train]\n" + toml + " = 1\n");
  folder_.write("section.toml", base + "\n[" + toml + "]\nkey = 1\n");
  folder_.write("dir.toml", base + "\n[data]\npath = " + toml + "\n");
  const std::vector<std::vector<std::string>> commands = {
      {"plan", "key.toml"},
      {"plan", "section.toml"},
      {"train", "dir.toml"},
      {"plan", evil},
      {evil},
      {"plan", "run.toml", "--" + evil},
      {"plan", "run.toml", "--set", evil},
      {"plan", "run.toml", "--set", evil + "=1"},
      {"plan", "run.toml", "--set", "model." + evil + "=1"},
      {"plan", "--model", evil, "--cluster", "h100-8"},
      {"plan", "--model", "llama-3-8b", "--cluster", evil},
      {"explain", evil},
      {"generate", "--run", evil, "--prompt", "x"},
      {"plan", "run.toml", "--json", "--set", "logging.run_dir=" + evil}};
  for (const auto& words : commands) {
    const CommandResult result = Command(folder_, words).finish();
    for (const std::string& text : {result.out, result.err}) {
      for (const char* raw : {"\x1b", "\x07", "\xc2\x9b", "\xe2\x80\xae", "\x7f"}) {
        EXPECT_EQ(text.find(raw), std::string::npos) << words[0] << ": " << text;
      }
    }
  }
}

TEST_F(CliTest, BytesThatAreNoTextAreRefused) {
  const CommandResult result = run("plan run.toml --json --set", {"logging.run_dir=\xff\xfe"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "tessera: error: 'logging.run_dir=\\xff\\xfe' is not UTF-8: type it in a terminal that "
            "uses UTF-8\n");
}

TEST_F(CliTest, LongNamesAreCut) {
  const std::string name(5000, 'k');
  for (const std::string& set : {"train." + name + "=1", name + ".x=1", name}) {
    const CommandResult result = run("plan run.toml --set", {set});
    EXPECT_EQ(result.code, 2);
    EXPECT_LT(result.err.size(), 1500U) << result.err;
    EXPECT_NE(result.err.find("characters)"), std::string::npos) << result.err;
  }
}

// Weights of a run go out and come back in as a Hugging Face model: they are the same bits, and
// their loss on the first batch does not depend on the mesh that reads them.
TEST_F(CliTest, TrainsFromAHuggingFaceFolder) {
  succeed("train run.toml --set train.steps=3");
  const std::string text = tiny_run_file();
  folder_.write("hf.toml", "[model]\nhf = \"out\"\n" + text.substr(text.find("[parallel]")));

  // A learning rate this small leaves every float as it is.
  succeed("train hf.toml --set optimizer.lr=1e-30 --set logging.run_dir=again");
  EXPECT_EQ(read_file(folder_.path("again/model.safetensors")),
            read_file(folder_.path("out/model.safetensors")));
  succeed("train hf.toml --set logging.run_dir=alone --set parallel.dp=1 --set parallel.tp=1");
  EXPECT_NEAR(loss_at("again", 1), loss_at("alone", 1), 1e-5);
  EXPECT_GT(std::abs(loss_at("out", 1) - loss_at("again", 1)), 1e-3) << "nothing was imported";
}

TEST_F(CliTest, VerifyComparesTwoMeshes) {
  const json report =
      succeed("verify run.toml --mesh dp=2,zero=0 --mesh tp=2,zero=0 --json --steps 2").json();
  EXPECT_EQ(report.at("schema_version"), 1);
  EXPECT_EQ(report.at("equal"), true);
  EXPECT_EQ(report.at("steps"), 2);
  EXPECT_EQ(report.at("tolerance"), 1e-12);
  EXPECT_EQ(report.at("tensors").size(), 21U);
  EXPECT_GT(report.at("largest").at("gradient").get<double>(), 0.0) << "a sum in another order";
}

TEST_F(CliTest, ToleranceZeroMeansTheSameBits) {
  for (const std::string dtype : {"f64", "f32", "bf16"}) {
    const json report = succeed(
                            "verify run.toml --mesh fsdp=2,zero=0 --mesh fsdp=2,zero=3 --json "
                            "--tolerance 0 --steps 2 --dtype " +
                            dtype)
                            .json();
    EXPECT_EQ(report.at("tolerance"), 0.0);
    EXPECT_EQ(report.at("largest").at("weight"), 0.0);
  }
  const CommandResult other =
      run("verify run.toml --mesh dp=2 --mesh tp=2 --tolerance 0 --steps 2");
  EXPECT_EQ(other.code, 1) << "tensor parallelism sums in another order:\n" << other.out;
}

TEST_F(CliTest, PlanDrawsMemoryAndPlacements) {
  const CommandResult plan =
      succeed("plan run.toml --mesh dp=2,tp=2 --svg memory.svg --placements parts.svg");
  EXPECT_NE(plan.out.find("memory of a rank"), std::string::npos) << plan.out;
  EXPECT_NE(read_file(folder_.path("memory.svg")).find(">tp all_reduce<"), std::string::npos);
  EXPECT_NE(read_file(folder_.path("parts.svg")).find(">residual stream<"), std::string::npos);
  EXPECT_EQ(run("plan run.toml --svg no/such/folder/a.svg").code, 2);
}

TEST_F(CliTest, SimulateShowsTheScheduleOfEveryRank) {
  const CommandResult text = succeed("simulate run.toml --schedule-only --mesh pp=2");
  EXPECT_TRUE(text.out.starts_with("1f1b: 2 ranks, 2 stages, 4 micro-batches\nbubble 20.0 %"))
      << text.out;
  EXPECT_NE(text.out.find("rank 1 .  F0 B0--- F1 B1---"), std::string::npos) << text.out;
  const json report = succeed(
                          "simulate run.toml --schedule-only --mesh pp=2,schedule=zb-v --svg a.svg "
                          "--json")
                          .json();
  EXPECT_EQ(report.at("schema_version"), 1);
  EXPECT_EQ(report.at("num_stages"), 4);
  EXPECT_EQ(report.at("ranks").size(), 2U);
  EXPECT_TRUE(read_file(folder_.path("a.svg")).starts_with("<svg"));
  EXPECT_EQ(run("simulate run.toml --csv a.csv").code, 2);
  EXPECT_EQ(run("simulate run.toml --schedule-only --trace a.json").code, 2);
  const CommandResult refused =
      run("simulate run.toml --schedule-only --mesh pp=3,schedule=dualpipe-v");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("use 6 micro-batches, or schedule = \"zb-v\""), std::string::npos)
      << refused.err;
}

// As a search writes them for a cluster: every rank cannot be compiled here, and need not be.
TEST_F(CliTest, LargeRunFilesArePlannedWithoutACluster) {
  folder_.write(
      "big.toml",
      "[model]\npreset = \"llama-3-405b\"\n"
      "[parallel]\ntp = 8\npp = 16\ndp = 128\nzero = 1\n"
      "[train]\nseq_len = 8192\nglobal_batch = 2048\ndtype = \"bf16\"\ndevice = \"cuda\"\n");
  const CommandResult text = succeed("plan big.toml");
  EXPECT_NE(text.out.find("cluster: h100-16384, since none is named"), std::string::npos)
      << text.out;
  const CommandResult program = run("plan big.toml --program");
  EXPECT_EQ(program.code, 2);
  EXPECT_NE(program.err.find("too many to compile one by one for --program"), std::string::npos)
      << program.err;
}

TEST_F(CliTest, SimulateTakesAModelAndASplitWithoutARunFile) {
  const std::string split = "simulate --model llama-3-8b --cluster h100-64 --tp 4 --pp 4 ";
  const CommandResult text = succeed(split + "--slow rank=3,factor=1.3");
  EXPECT_NE(text.out.find("on 64 x h100"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("parallel.dp: 4, so that all devices are used"), std::string::npos)
      << text.out;
  const json report = succeed(split + "--dp 4 --json").json();
  EXPECT_EQ(report.at("kind"), "simulation");
  EXPECT_EQ(report.at("cluster").at("name"), "h100-64");
  EXPECT_GT(report.at("tokens_per_s").get<double>(), 0);
  // Flags count over what a run file says, too.
  EXPECT_NE(succeed("simulate run.toml --pp 2 --schedule-only").out.find("2 stages"),
            std::string::npos);
  const CommandResult nowhere = run("simulate --model llama-3-8b");
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_NE(nowhere.err.find("give --cluster"), std::string::npos) << nowhere.err;
}

TEST_F(CliTest, SimulateReplaysAWholeStep) {
  const std::string mesh = "simulate run.toml --mesh pp=2,dp=2 ";
  const CommandResult text = succeed(mesh + "--svg a.svg --trace a.json");
  EXPECT_NE(text.out.find("2 of 4 ranks simulated, the others do the same"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("ranks 2-3 (pp1)"), std::string::npos) << text.out;
  EXPECT_TRUE(read_file(folder_.path("a.svg")).starts_with("<svg"));
  const std::string trace = read_file(folder_.path("a.json"));
  EXPECT_EQ(json::parse(trace).at("distributedInfo").at("world_size"), 4);
  succeed(mesh + "--trace b.json");
  EXPECT_EQ(trace, read_file(folder_.path("b.json"))) << "the same step, other bytes";
  succeed(mesh + "--all-ranks --trace traces/");
  CommandOptions gzip;
  gzip.program = "/bin/gzip";
  Command unpack(folder_, {"-dc", "traces/rank3.json.gz"}, gzip);
  EXPECT_EQ(unpack.finish().json().at("distributedInfo").at("rank"), 3);
  EXPECT_TRUE(exists("traces/all.json.gz"));
}

TEST_F(CliTest, SimulateSlowsDownAndLosesRanks) {
  const std::string mesh = "simulate run.toml --mesh pp=2,dp=2 ";
  const double step = succeed(mesh + "--json").json().at("step_s");
  EXPECT_GT(step, 0);
  EXPECT_GT(succeed(mesh + "--slow rank=3,factor=1.5 --json").json().at("step_s"), step);
  const json lost = succeed(mesh + "--lost rank=2,at=0.5 --json").json();
  EXPECT_EQ(lost.at("lost").at("rank"), 2);
  EXPECT_FALSE(lost.at("stuck").empty());
  EXPECT_NE(succeed(mesh + "--lost rank=2,at=0.5").out.find("waits for rank 2 in"),
            std::string::npos);
  for (const char* bad :
       {"--slow rank=4,factor=2", "--slow rank=1", "--slow rank=1,factor=0", "--slow 3",
        "--slow rank=1,factor=nan", "--slow rank=-1,factor=2", "--slow rank=0.5,factor=2",
        "--slow rank=1,rank=1", "--slow rank=1,speed=2", "--lost rank=1,at=2",
        "--lost rank=1e18,at=0.5", "--lost rank=9,at=0.5", "--set train.dtype=f64"}) {
    const CommandResult refused = run(mesh + bad);
    EXPECT_EQ(refused.code, 2) << bad << "\n" << refused.out << refused.err;
    EXPECT_NE(refused.err.find("use"), std::string::npos) << bad << refused.err;
  }
}

TEST_F(CliTest, SimulateTakesTheMachineFromTheCatalogue) {
  const std::string mesh = "simulate run.toml --mesh dp=2 --json ";
  const json cpu = succeed(mesh + "--cluster cpu").json();
  const json gpu = succeed(mesh + "--cluster h100").json();
  EXPECT_EQ(gpu.at("cluster").at("device"), "h100");
  EXPECT_NE(gpu.at("step_s"), cpu.at("step_s"));
  json without = succeed(mesh).json();
  without["guesses"] = cpu.at("guesses");  // one more: that nobody named the machine
  EXPECT_EQ(cpu, without) << "a run file for the CPU";
  const CommandResult refused = run(mesh + "--cluster h10");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("did you mean 'h100'?"), std::string::npos) << refused.err;
}

TEST_F(CliTest, BenchSimulatorCountsSchedules) {
  const json report = succeed("bench simulator --threads 1 --seconds 0.001 --json").json();
  EXPECT_GE(report.at("cases").size(), 5U);
  for (const json& row : report.at("cases")) {
    EXPECT_GT(row.at("one_by_one_per_s"), 0);
    EXPECT_GT(row.at("eight_at_a_time_per_s"), 0);
  }
}

TEST_F(CliTest, AScheduleFromAFileTrainsToTheSameBits) {
  succeed("simulate run.toml --schedule-only --mesh pp=2,schedule=zb-h1 --csv mine.csv");
  EXPECT_EQ(succeed("verify run.toml --mesh pp=2,schedule=zb-h1 --mesh pp=2,schedule=mine.csv "
                    "--tolerance 0 --steps 2 --json")
                .json()
                .at("equal"),
            true);
  folder_.write("bad.csv", "placement,0,1\nF0.0,B0.0\nF1.0,X1.0\n");
  const CommandResult bad = run("plan run.toml --mesh pp=2,schedule=bad.csv");
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("bad.csv:3:6: cell \"X1.0\""), std::string::npos) << bad.err;
  EXPECT_EQ(run("plan run.toml --mesh pp=2,schedule=absent.csv").code, 2);
}

TEST_F(CliTest, AnInterruptEndsTheRunInOrder) {
  Command command(folder_, words_of("train run.toml --set train.steps=1000000"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const std::string metrics_file = folder_.path("out/metrics.jsonl");
  while (std::chrono::steady_clock::now() < deadline && read_file(metrics_file).empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  command.signal(SIGINT);
  const CommandResult result = command.finish();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_NE(result.err.find("tessera: stopped by ^C after step "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("; its weights are in out\n"), std::string::npos) << result.err;
  const std::vector<json> metrics = read_metrics(metrics_file);
  const json summary = json::parse(read_file(folder_.path("out/summary.json")));
  EXPECT_EQ(summary.at("steps"), metrics.size());
  EXPECT_EQ(summary.at("final_loss"), metrics.back().at("loss"));
  EXPECT_EQ(summary.at("ranks"), json::parse(read_file(folder_.path("out/plan.json"))).at("ranks"));
  succeed("generate --run out --prompt x --tokens 3");
}

}  // namespace
}  // namespace tessera
