#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/message_of.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

std::string no_file(const std::string& path) { throw ConfigError("cannot open '" + path + "'"); }

RunSpec read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  RunSpec spec = parse_run_file(text, "run.toml", overrides, no_file);
  resolve(spec);
  return spec;
}

// What a run file says after it was written out and read again.
void expect_same_run(const RunSpec& spec) {
  const std::string text = to_toml(spec);
  RunSpec back = read(text);
  EXPECT_EQ(back.logging.run_dir, "") << text;
  back.logging.run_dir = spec.logging.run_dir;
  EXPECT_EQ(to_json(back).dump(2), to_json(spec).dump(2)) << text;
}

constexpr const char* kSmall = R"([model]
layers = 4
hidden = 64
ffn = 172
heads = 8
vocab = 256
)";

TEST(RunTomlTest, ReadingItBackGivesTheSameRun) {
  const std::vector<std::vector<std::string>> runs = {
      {},
      {"parallel.fsdp=2", "parallel.recompute=light:2+norms", "train.dtype=bf16"},
      {"parallel.pp=2", "parallel.schedule=zb-v", "parallel.stage_layers=1+1+1+1"},
      {"parallel.cp=2", "parallel.cp_kind=allgather", "train.seq_len=64"},
      {"model.family=gpt2", "model.tied=true", "optimizer.betas=[0.9, 0.999]"},
      {"model.family=mixtral", "model.experts=4", "parallel.ep=2", "parallel.fsdp=2"},
      {"model.rope_scaling={type=\"llama3\", factor=8}", "model.norm_eps=1e-30"},
      {"data.path=a \"b\"\\c\x7f/\xc3\xa9.txt", "logging.every=7"},
      {"data.synth.seed=9223372036854775807", "optimizer.lr=0.1", "optimizer.clip=0"},
      {"logging.run_dir=out", "cluster.memory_gib=1.5", "train.comm_timeout=3"},
  };
  for (const std::vector<std::string>& overrides : runs) {
    SCOPED_TRACE(overrides.empty() ? "" : overrides.front());
    expect_same_run(read(kSmall, overrides));
  }
}

// A preset brings values that no key was given for, and all of them are written.
TEST(RunTomlTest, EveryPresetSurvives) {
  for (const std::string_view name : model_names()) {
    SCOPED_TRACE(name);
    expect_same_run(read(fmt::format("[model]\npreset = \"{}\"\n", name)));
  }
}

TEST(RunTomlTest, AScheduleIsNamedAndNotHeld) {
  RunSpec spec = read(kSmall, {"parallel.pp=2"});
  spec.parallel.schedule = PipelineChoice::parse("runs/mine/schedule.csv");
  spec.parallel.schedule_csv = "placement,0,1\n";
  const std::string text = to_toml(spec);
  EXPECT_NE(text.find("schedule = \"runs/mine/schedule.csv\"\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("schedule_csv"), std::string::npos) << text;
}

TEST(RunTomlTest, JsonIsSentToTheRunFileBesideIt) {
  constexpr std::string_view kJson = "\n {\"model\": {}}";
  const std::string file = "runs/a/resolved.json";
  const std::string wanted = file +
                             ": this is JSON, and a run file is TOML: the run file of a run "
                             "directory is the resolved.toml in it";
  EXPECT_EQ(testing::message_of([&] { parse_run_file(kJson, file, {}, no_file); }), wanted);
  EXPECT_EQ(testing::message_of([&] { static_cast<void>(named_cluster(kJson, file, {})); }),
            wanted);
}

TEST(RunTomlTest, AnOverriddenModelIsReportedWhereItWasSaid) {
  const std::string wrong = testing::message_of(
      [] { read("[model]\npreset = \"tiny-3m\"\n", {"model.preset=tiny-3x"}); });
  EXPECT_TRUE(wrong.starts_with("--set model.preset=tiny-3x: unknown model preset")) << wrong;
}

TEST(RunTomlTest, ANumberThatIsTooSmallIsNotCalledAnInteger) {
  for (const std::string key : {"optimizer.eps", "optimizer.lr", "model.norm_eps"}) {
    EXPECT_EQ(testing::message_of([&] { read(kSmall, {key + "=0"}); }),
              fmt::format("--set {0}=0: {0} must be a number above 0 and at most "
                          "1000000000000, got integer 0",
                          key));
  }
}

}  // namespace
}  // namespace tessera
