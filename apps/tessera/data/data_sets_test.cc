#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text/printable.h"
#include "data/set/set_writer.h"
#include "data/synth.h"
#include "in_process.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const std::string kTokenizers = TESSERA_SOURCE_DIR "/tests/data/tokenizers/";
constexpr const char* kRun = R"([model]
layers = 2
hidden = 16
ffn = 32
heads = 2
vocab = 600
[train]
seq_len = 16
micro_batch = 2
global_batch = 4
steps = 2
)";

class DataSetsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "data_sets_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    text_ = write("stories.txt", synth_stories(3, 20'000));
    run_ = write("run.toml", kRun);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // A set of the stories, and its folder.
  std::string prepare(const std::string& name, const std::string& tokenizer = "llama3",
                      const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {
        "data",    "prepare",     text_,    "--tokenizer", kTokenizers + tokenizer, "--end",
        "<|end|>", "--separator", "\\n\\n", "--out",       folder_ + "/" + name};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = run_in_process(words);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return folder_ + "/" + name;
  }
  Ended train(const std::vector<std::string>& settings, bool dry = true) {
    std::vector<std::string> words = {"train", run_, "--threads"};
    if (dry) words.push_back("--dry-run");
    for (const std::string& setting : settings) {
      words.insert(words.end(), {"--set", setting});
    }
    words.insert(words.end(), {"--set", "logging.run_dir=" + folder_ + "/run"});
    return run_in_process(words);
  }

  std::string folder_, text_, run_;
};

TEST_F(DataSetsTest, PrepareAndCheckAgree) {
  const std::string set = prepare("set");
  const Ended checked = run_in_process({"data", "check", set, "--json"});
  ASSERT_EQ(checked.code, 0) << checked.err;
  const auto json = nlohmann::json::parse(checked.out);
  EXPECT_EQ(json.at("format"), "tessera");
  EXPECT_EQ(json.at("end_token"), 1);
  const Ended again = run_in_process({"data", "prepare", text_, "--tokenizer",
                                      kTokenizers + "llama3", "--end", "<|end|>", "--out", set});
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("holds a set already"), std::string::npos) << again.err;
  const std::string corpus = prepare("corpus", "llama3", {"--format", "megatron", "--quiet"});
  const Ended megatron = run_in_process({"data", "check", corpus + "/train", "--json"});
  ASSERT_EQ(megatron.code, 0) << megatron.err;
  EXPECT_EQ(nlohmann::json::parse(megatron.out).at("tokens"), json.at("tokens"));
  fs::resize_file(corpus + "/train.bin", 1000);
  const Ended damaged = run_in_process({"data", "check", corpus + "/train"});
  EXPECT_EQ(damaged.code, 2);
  EXPECT_NE(damaged.err.find("cut off"), std::string::npos) << damaged.err;
}

TEST_F(DataSetsTest, UnreadableLinesAreNamed) {
  const std::string lines = write("lines.jsonl", "{\"text\": \"good\"}\n{\"text\":\n");
  const Ended ended =
      run_in_process({"data", "prepare", lines, "--tokenizer", kTokenizers + "llama3", "--end",
                      "<|end|>", "--out", folder_ + "/set"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("lines.jsonl:2: the line is no JSON"), std::string::npos) << ended.err;
}

TEST_F(DataSetsTest, TrainsOnASetAndSpeaksItsTokens) {
  const std::string set = prepare("set", "llama3", {"--valid", "0.1"});
  const Ended trained =
      train({"data.train=" + set + "/train", "data.valid=" + set + "/valid"}, /*dry=*/false);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(fs::exists(folder_ + "/run/tokenizer.json"));
  const Ended said = run_in_process({"generate", "--run", folder_ + "/run", "--prompt",
                                     "Once upon a time", "--tokens", "5", "--json"});
  ASSERT_EQ(said.code, 0) << said.err;
  const std::string text = nlohmann::json::parse(said.out).at("text");
  EXPECT_EQ(text.rfind("Once upon a time", 0), 0U) << text;
  // The same text as it comes.
  const Ended shown = run_in_process(
      {"generate", "--run", folder_ + "/run", "--prompt", "Once upon a time", "--tokens", "5"});
  EXPECT_EQ(shown.out, printable(text) + "\n");
  // What it wrote about itself is the same run again.
  const Ended again = run_in_process({"train", folder_ + "/run/resolved.toml", "--dry-run"});
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST_F(DataSetsTest, EveryMeshReadsTheSameSamples) {
  const std::string mix = "data.mix=[{path=\"" + prepare("a") + "\", weight=3}, {path=\"" +
                          prepare("b", "llama3", {"--format", "megatron"}) + "/train\"}]";
  for (const char* mesh : {"dp=2", "fsdp=2", "tp=2", "cp=2", "pp=2"}) {
    const Ended ended = run_in_process({"verify", run_, "--mesh", mesh, "--set", mix});
    EXPECT_EQ(ended.code, 0) << mesh << ": " << ended.out << ended.err;
  }
}

TEST_F(DataSetsTest, WhatCannotBeTrainedOnIsRefusedBeforeTheRun) {
  const std::string set = prepare("set");
  const std::string other = prepare("other", "qwen2");
  const std::string megatron = prepare("corpus", "llama3", {"--format", "megatron"});
  const std::string valid = prepare("split", "llama3", {"--valid", "0.000001"}) + "/valid";
  const auto refused = [&](const std::vector<std::string>& settings, const std::string& part) {
    for (const bool dry : {true, false}) {
      const Ended ended = train(settings, dry);
      EXPECT_EQ(ended.code, 2) << part;
      EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
    }
    EXPECT_FALSE(fs::exists(folder_ + "/run"));
  };
  const std::string of_set = "data.train=" + set;
  refused({of_set, "model.vocab=300"},
          "has a vocabulary of 492 tokens, but model.vocab is 300: use model.vocab = 492");
  refused({"data.train=" + megatron + "/train", "model.vocab=300"}, "but the vocabulary has 300");
  refused({of_set, "train.seq_len=1M"}, "tokens but one sample needs seq_len + 1");
  refused({"data.train=" + valid}, "has no documents");
  refused({"data.mix=[{path=\"" + set + "\"}, {path=\"" + other + "\"}]"},
          "was made with another tokenizer");
  refused({of_set, "data.tokenizer=" + kTokenizers + "qwen2"}, "was made with another tokenizer");
  refused({"data.train=" + text_}, "data.path reads text");
  refused({of_set, "data.valid=" + folder_ + "/absent"}, "data.valid: ");
  fs::resize_file(set + "/tokens.bin", 100);
  refused({of_set}, "cut off");
  fs::resize_file(megatron + "/train.bin", 1000);
  refused({"data.train=" + megatron + "/train"}, "train.bin");
  fs::resize_file(megatron + "/train.idx", 30);
  refused({"data.train=" + megatron + "/train"}, "train.idx");
}

// Before a run, ids are looked at in some places only; Megatron's files do not say their
// vocabulary. An id that lies elsewhere is found when a step reads it, or by `data check`.
TEST_F(DataSetsTest, AnIdThatNoPlaceShowsIsNamedWithItsFileWhenItIsRead) {
  constexpr int64_t kTokens = 1'000'000;
  constexpr int64_t kPlaces = 64, kSeen = 4096;  // session/run_sets.cc
  SetDescription facts;
  facts.vocab_size = 700;
  facts.end_token = 1;
  std::vector<int32_t> ids(kTokens, 5);
  for (int64_t i = 0; i < kTokens; ++i) {
    if (i % (kTokens / kPlaces) >= kSeen) ids[static_cast<size_t>(i)] = 650;
  }
  SetWriter writer({SetFormat::kMegatron, folder_ + "/odd"}, facts);
  writer.append(ids);
  writer.end_document();
  writer.finish();
  const std::string of_set = "data.train=" + folder_ + "/odd";
  EXPECT_EQ(train({of_set}).code, 0) << "the places that are looked at have none";
  for (const Ended& found : {train({of_set}, /*dry=*/false),
                             run_in_process({"data", "check", folder_ + "/odd", "--vocab", "600"}),
                             run_in_process({"data", "samples", run_, "--set", of_set})}) {
    EXPECT_EQ(found.code, 2) << found.out;
    EXPECT_NE(found.err.find("odd.bin': token "), std::string::npos) << found.err;
    EXPECT_NE(found.err.find("has the id 650, but the vocabulary has 600"), std::string::npos)
        << found.err;
  }
}

TEST_F(DataSetsTest, ASetIsEvaluatedAsTheTextOfItsTokens) {
  const std::string set = prepare("set");
  ASSERT_EQ(train({"data.train=" + set}, /*dry=*/false).code, 0);
  const auto loss = [&](const std::string& data) {
    const Ended ended =
        run_in_process({"eval", folder_ + "/run", "--data", data, "--limit", "7", "--json"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return nlohmann::json::parse(ended.out).at("sets").at(0);
  };
  const auto mine = loss(set);
  EXPECT_EQ(mine.at("tokens"), 7 * 16);
  EXPECT_FALSE(mine.contains("bits_per_byte")) << "bytes are not known";
  const std::string megatron = prepare("corpus", "llama3", {"--format", "megatron"});
  EXPECT_EQ(loss(megatron + "/train").at("loss"), mine.at("loss"));
  const Ended other =
      run_in_process({"eval", folder_ + "/run", "--data", prepare("other", "qwen2")});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("was made with another tokenizer"), std::string::npos) << other.err;
  const Ended none = run_in_process({"eval", folder_ + "/run", "--data", folder_});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("a folder that is no set of tokens"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace tessera
