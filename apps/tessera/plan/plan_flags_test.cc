// What people type to plan and simulate: the same question asked in several ways.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "asked_words.h"

namespace tessera {
namespace {

using testing::contains;
using testing::json_of;
using testing::refusal_of_command;
using testing::Words;
using testing::operator+;

const Words kPlan8b = {"plan",      "--model", "llama-3-8b",     "--cluster", "h100-64",
                       "--seq-len", "4096",    "--global-batch", "256"};
const Words kMeshFlags = {"--tp", "8", "--dp", "8", "--zero", "1"};

// A folder of its own, gone with the test.
class Folder {
 public:
  // One for each process: other tests run beside it.
  Folder()
      : path_(std::filesystem::path(::testing::TempDir()) /
              fmt::format("tessera_plan_flags_{}", getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

constexpr const char* kConfig =
    R"({"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "intermediate_size": 512,
        "num_attention_heads": 8, "vocab_size": 1000})";

TEST(PlanFlags, GuessesDoNotDependOnHowTheMeshIsGiven) {
  const nlohmann::json flags = json_of(kPlan8b + kMeshFlags);
  const nlohmann::json mesh = json_of(kPlan8b + Words{"--mesh", "tp=8,dp=8,zero=1"});
  const nlohmann::json set = json_of(kPlan8b + Words{"--set", "parallel.tp=8", "--set",
                                                     "parallel.dp=8", "--set", "parallel.zero=1"});
  EXPECT_EQ(mesh.dump(), flags.dump());
  EXPECT_EQ(set.dump(), flags.dump());
  EXPECT_EQ(flags.at("guesses").front().at("what"), "train.dtype");
  const nlohmann::json part = json_of(kPlan8b + Words{"--tp", "8"});
  EXPECT_EQ(json_of(kPlan8b + Words{"--mesh", "tp=8"}).dump(), part.dump()) << "dp is filled in";
}

TEST(PlanFlags, SimulationsGuessTheSame) {
  Words simulate = {"simulate",  "--model", "qwen2-0.5b",     "--cluster", "h100-4",
                    "--seq-len", "256",     "--global-batch", "4"};
  const nlohmann::json flags = json_of(simulate + Words{"--tp", "2", "--dp", "2"});
  EXPECT_EQ(json_of(simulate + Words{"--mesh", "tp=2,dp=2"}).dump(), flags.dump());
  EXPECT_EQ(flags.at("guesses").front().at("what"), "train.dtype");
  simulate[1] = "--set";
  simulate[2] = "model.preset=qwen2-0.5b";
  EXPECT_EQ(json_of(simulate + Words{"--mesh", "tp=2,dp=2"}).dump(), flags.dump());
}

TEST(PlanFlags, WhatContradictsIsRefusedWithBoth) {
  const std::string mesh = refusal_of_command(kPlan8b + Words{"--mesh", "tp=8,dp=8", "--tp", "4"});
  EXPECT_TRUE(contains(mesh, "--tp 4 and --mesh tp=8,dp=8")) << mesh;
  const std::string set = refusal_of_command(kPlan8b + Words{"--set", "train.seq_len=8192"});
  EXPECT_TRUE(contains(set, "--seq-len 4096 and --set train.seq_len=8192")) << set;
  const std::string cluster = refusal_of_command(kPlan8b + Words{"--set", "cluster.name=a100-8"});
  EXPECT_TRUE(contains(cluster, "--cluster h100-64 and --set cluster.name=a100-8")) << cluster;
  EXPECT_TRUE(
      contains(refusal_of_command(kPlan8b + Words{"--set", "model.preset=gpt2"}), "--model"));
  EXPECT_TRUE(
      contains(refusal_of_command(kPlan8b + Words{"--tp", "4", "--vary", "parallel.tp=2,4"}),
               "--vary parallel.tp=2,4 and --tp 4"));
  EXPECT_TRUE(contains(
      refusal_of_command(kPlan8b + Words{"--mesh", "tp=4,dp=16", "--vary", "parallel.pp=1,2"}),
      "--vary parallel.pp=1,2 and --mesh tp=4,dp=16"));
}

TEST(PlanFlags, SeveralKeysVaryAsAGrid) {
  const Words two = {"--vary", "parallel.tp=2,4,8", "--vary", "parallel.pp=2,4"};
  const nlohmann::json json = json_of(kPlan8b + two);
  ASSERT_EQ(json.at("plans").size(), 6U);
  EXPECT_EQ(json.at("keys"), (nlohmann::json{"parallel.tp", "parallel.pp"}));
  EXPECT_EQ(json.at("plans")[3].at("values"), (nlohmann::json{"4", "4"}));
  const nlohmann::json alone = json_of(kPlan8b + Words{"--tp", "4", "--pp", "4"});
  EXPECT_EQ(json.at("plans")[3].at("step_s"), alone.at("time").at("step_s"));
  const Ended text = run_in_process(kPlan8b + two);
  EXPECT_TRUE(contains(text.out, "parallel.tp  parallel.pp  ranks")) << text.out;
  const std::string many =
      refusal_of_command(kPlan8b + Words{"--vary", "train.micro_batch=1,2,3,4,5,6,7,8,9", "--vary",
                                         "parallel.prefetch=1,2,3,4,5,6,7,8"});
  EXPECT_TRUE(contains(many, "more than 64 runs")) << many;
  EXPECT_TRUE(contains(
      refusal_of_command(kPlan8b + Words{"--vary", "parallel.tp=2", "--vary", "parallel.tp=4"}),
      "both vary parallel.tp"));
}

TEST(PlanFlags, MistakesNameTheFlagThatWasTyped) {
  EXPECT_TRUE(contains(refusal_of_command(kPlan8b + Words{"--vary", "micro_batch=1,2"}),
                       "--vary micro_batch=1: unknown section"));
  EXPECT_TRUE(
      contains(refusal_of_command(kPlan8b + Words{"--tp", "x"}), "--tp x: parallel.tp must be"));
  EXPECT_TRUE(contains(refusal_of_command(kPlan8b + Words{"--tp", ""}), "--tp is ''"));
  EXPECT_TRUE(contains(
      refusal_of_command({"plan", "--model", "llama-3-8b", "--cluster", "h100-8", "--tp", "16"}),
      "is 16, more than the 8 devices of cluster h100-8"));
}

TEST(PlanFlags, TokensNeedAClusterToPriceThem) {
  const Folder folder;
  const std::string file = folder.write("run.toml", "[model]\npreset = \"tiny-3m\"\n");
  EXPECT_TRUE(
      contains(refusal_of_command({"plan", file, "--tokens", "1T"}), "--tokens needs a cluster"));
  EXPECT_EQ(run_in_process({"plan", file, "--tokens", "1T", "--cluster", "h100-1"}).code, 0);
}

TEST(PlanFlags, CountsAreWrittenAsPeopleSayThem) {
  const Words run = {"plan", "--model", "llama-3-8b", "--cluster", "h100-64", "--tp", "8"};
  const nlohmann::json plain = json_of(run + Words{"--seq-len", "8192", "--global-batch", "512"});
  EXPECT_EQ(json_of(run + Words{"--seq-len", "8k", "--global-batch", "4Mitok"}).dump(),
            plain.dump());
  const nlohmann::json guessed =
      json_of(run + Words{"--global-batch", "4Mitok", "--vary", "train.micro_batch=1"});
  EXPECT_EQ(guessed.at("plans")[0].at("global_batch"), 1024) << "of the guessed 4096";
  const std::string odd = refusal_of_command(run + Words{"--global-batch", "4Mtok"});
  EXPECT_TRUE(contains(odd, "--global-batch 4Mtok: train.global_batch is 4,000,000 tokens")) << odd;
  const nlohmann::json varied =
      json_of(run + Words{"--global-batch", "64", "--vary", "train.seq_len=4k,8192"});
  EXPECT_EQ(varied.at("plans")[0].at("values")[0], "4k");
  EXPECT_LT(varied.at("plans")[0].at("step_s"), varied.at("plans")[1].at("step_s"));
}

TEST(PlanFlags, AModelMayBeAHuggingFaceFolder) {
  const Folder folder;
  const std::string config = folder.write("hub/config.json", kConfig);
  const std::string hub = std::filesystem::path(config).parent_path().string();
  const std::string file = folder.write("m.toml", "[model]\nhf = \"hub\"\n");
  const Words on = {"--cluster", "h100-2", "--seq-len", "256"};
  const auto parameters = [&](const Words& model) {
    return json_of(Words{"plan"} + model + on).at("parameters");
  };
  const nlohmann::json expected = parameters({"--model", hub});
  EXPECT_GT(expected, 1'000'000);
  EXPECT_EQ(parameters({"--model", config}), expected);
  EXPECT_EQ(parameters({"--set", "model.hf=" + hub}), expected);
  EXPECT_EQ(parameters({"--set", "model.hf=" + config}), expected);
  EXPECT_EQ(parameters({"--model", file}), expected);
  EXPECT_EQ(run_in_process(Words{"simulate", "--model", hub} + on).code, 0);
  EXPECT_EQ(run_in_process({"search", "--model", hub, "--cluster", "h100-2", "--seq-len", "256",
                            "--global-batch", "2"})
                .code,
            0);
  EXPECT_EQ(run_in_process({"explain", "memory", "--model", hub}).code, 0);
  EXPECT_TRUE(contains(refusal_of_command(Words{"plan", "--model", hub + "/none"} + on),
                       "none/config.json"));
}

TEST(PlanFlags, ARunFileMayNameItsCluster) {
  const Folder folder;
  const std::string text = "[model]\npreset = \"tiny-3m\"\n[train]\nglobal_batch = 4\n";
  const std::string plain = folder.write("plain.toml", text);
  const std::string named = folder.write("named.toml", text + "[cluster]\nname = \"h200-4\"\n");
  EXPECT_EQ(json_of({"plan", named}).dump(),
            json_of({"plan", plain, "--cluster", "h200-4"}).dump());
  EXPECT_EQ(json_of({"plan", named, "--cluster", "a100-4"}).dump(),
            json_of({"plan", plain, "--cluster", "a100-4"}).dump());
  EXPECT_EQ(json_of({"simulate", named}).dump(),
            json_of({"simulate", plain, "--cluster", "h200-4"}).dump());
  EXPECT_EQ(run_in_process({"plan", named, "--program"}).code, 0) << "of this machine";
  EXPECT_EQ(run_in_process({"plan", named, "--tokens", "1T"}).code, 0);
}

TEST(PlanFlags, NothingIsLeftOutWithoutAWord) {
  const Folder folder;
  const std::string file = folder.write("run.toml", "[model]\npreset = \"tiny-3m\"\n");
  EXPECT_TRUE(
      contains(refusal_of_command({"plan", file, "--program", "--json"}), "leave out --json"));
  EXPECT_TRUE(contains(refusal_of_command({"plan", file, "--rank", "1"}), "add --program"));
  const Words emit = {"plan", "--model", "llama-3-8b", "--cluster", "h100-8", "--emit", "megatron"};
  for (const std::string flag : {"--check", "--program"}) {
    EXPECT_TRUE(
        contains(refusal_of_command(emit + Words{flag}), "instead of a plan: leave out --check"));
  }
  EXPECT_TRUE(contains(refusal_of_command(emit + Words{"--tokens", "1T"}), "and --tokens"));
  const nlohmann::json settings = json_of(emit);
  EXPECT_EQ(settings.at("kind"), "settings");
  EXPECT_EQ(settings.at("settings"), run_in_process(emit).out);
  const std::string svg = folder.write("plan.svg", "");
  EXPECT_EQ(run_in_process({"plan", file, "--program", "--svg", svg}).code, 0);
  EXPECT_GT(std::filesystem::file_size(svg), 1000U);
}

// Two plans of one run must not disagree on what a rank has, whichever way they are made.
TEST(PlanFlags, WithoutAClusterTheLimitIsOfThisMachine) {
  const Folder folder;
  const std::string file = folder.write("run.toml", "[model]\npreset = \"tiny-3m\"\n");
  const nlohmann::json small = json_of({"plan", file});
  const nlohmann::json large = json_of({"plan", file, "--set", "train.micro_batch=1000000"});
  EXPECT_EQ(large.at("source"), "templates");
  EXPECT_EQ(large.at("limit_bytes"), small.at("limit_bytes"));
  EXPECT_EQ(large.at("limit_of"), small.at("limit_of"));
  const nlohmann::json gpu = json_of({"plan", file, "--set", "train.device=cuda"});
  if (gpu.at("limit_of").get<std::string>().find("no GPU") == std::string::npos) return;
  EXPECT_EQ(gpu.at("limit_bytes"), json_of({"plan", file, "--cluster", "h100-1"}).at("limit_bytes"))
      << "an H100's";
}

TEST(PlanFlags, AVariedValueThatIsAloneIsNamed) {
  EXPECT_TRUE(contains(refusal_of_command({"plan", "--model", "llama-3-8b", "--cluster", "h100-8",
                                           "--vary", "parallel.tp=3"}),
                       "--vary parallel.tp=3: "));
}

TEST(SimulateFlags, SaysThatAProcessorIsAGuess) {
  const Folder folder;
  const std::string file = folder.write("run.toml", "[model]\npreset = \"tiny-3m\"\n");
  const Ended ended = run_in_process({"simulate", file});
  EXPECT_TRUE(contains(ended.out, "cluster: cpu, since none is named")) << ended.out;
  EXPECT_TRUE(contains(ended.out, "'tessera calibrate' measures this one")) << ended.out;
  EXPECT_FALSE(contains(run_in_process({"simulate", file, "--cluster", "h100"}).out, "calibrate"));
}

TEST(SimulateFlags, ScheduleTakesAValueAndScheduleOnlyNone) {
  const Folder folder;
  const std::string file =
      folder.write("run.toml", "[model]\npreset = \"tiny-3m\"\n[train]\nglobal_batch = 8\n");
  const Words on = {"simulate", file, "--pp", "2"};
  const nlohmann::json flag = json_of(on + Words{"--schedule", "gpipe", "--schedule-only"});
  EXPECT_EQ(flag.dump(),
            json_of({"simulate", file, "--mesh", "pp=2,schedule=gpipe", "--schedule-only"}).dump());
  EXPECT_TRUE(
      contains(refusal_of_command(on + Words{"--schedule"}), "'--schedule-only' takes none"));
  EXPECT_TRUE(contains(refusal_of_command({"simulate", "--schedule", file}), "--schedule-only"));
}

TEST(NameFlags, OfFilesAreCorrected) {
  const Folder folder;
  const std::string file = folder.write("mine.toml", "");
  const std::string typed = file.substr(0, file.size() - 4) + "tml";
  EXPECT_TRUE(contains(refusal_of_command({"plan", typed}), "did you mean '" + file + "'?"));
}

TEST(VersionTest, HasThreeSpellings) {
  const std::string version = run_in_process({"--version"}).out;
  EXPECT_TRUE(version.starts_with("tessera ")) << version;
  EXPECT_EQ(run_in_process({"-V"}).out, version);
  EXPECT_EQ(run_in_process({"version"}).out, version);
}

}  // namespace
}  // namespace tessera
