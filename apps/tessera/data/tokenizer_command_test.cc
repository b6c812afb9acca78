#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "in_process.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

const std::string kTokenizers = TESSERA_SOURCE_DIR "/tests/data/tokenizers/";

class TokenizerCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "tokenizer_command_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::string folder_;
};

TEST_F(TokenizerCommandTest, TokensShowsPiecesAndIds) {
  const Ended table =
      run_in_process({"data", "tokens", "the\n", "--tokenizer", kTokenizers + "llama3"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("<|begin_of_text|>"), std::string::npos) << table.out;
  const Ended printed =
      run_in_process({"data", "tokens", "the\n", "--tokenizer", kTokenizers + "llama3", "--json"});
  const Json json = Json::parse(printed.out);
  EXPECT_EQ(json["ids"][0], 0);
  EXPECT_EQ(json["pieces"][0], "<|begin_of_text|>");
  EXPECT_EQ(json["decoded"], "the\n");
  EXPECT_EQ(json["offsets"].back(), Json({3, 4}));
  const Ended plain = run_in_process(
      {"data", "tokens", "the\n", "--tokenizer", kTokenizers + "llama3", "--json", "--no-special"});
  EXPECT_EQ(Json::parse(plain.out)["ids"].size() + 1, json["ids"].size());
}

TEST_F(TokenizerCommandTest, TextFromOutsideReachesNoTerminal) {
  const Ended shown =
      run_in_process({"data", "tokens", "a\x1B[2J", "--tokenizer", kTokenizers + "metaspace"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(shown.out.find('\x1B'), std::string::npos);
}

TEST_F(TokenizerCommandTest, TrainsWhatTokensAndVerifyRead) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the cat sat on the mat " + std::to_string(i) + "\n";
  const std::string file = write("text.txt", text);
  const std::string out = folder_ + "/made";
  const Ended trained = run_in_process(
      {"data", "tokenizer", "train", file, "--vocab", "270", "--out", out, "--special", "<end>"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("270 tokens"), std::string::npos) << trained.err;
  const Ended again =
      run_in_process({"data", "tokenizer", "train", file, "--vocab", "270", "--out", out});
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("is there already"), std::string::npos) << again.err;

  const Ended tokens =
      run_in_process({"data", "tokens", "the cat<end>", "--tokenizer", out, "--json"});
  const Json json = Json::parse(tokens.out);
  EXPECT_EQ(json["ids"].back(), 0);
  EXPECT_EQ(json["vocab_size"], 270);

  Json golden = Json::array({{{"text", "the cat<end>"}, {"ids", json["ids"]}}});
  const std::string same = write("same.json", golden.dump());
  EXPECT_EQ(run_in_process({"verify", "--tokenizer", out, "--golden", same}).code, 0);
  golden[0]["ids"][0] = 1;
  const std::string other = write("other.json", golden.dump());
  const Ended different =
      run_in_process({"verify", "--tokenizer", out, "--golden", other, "--json"});
  EXPECT_EQ(different.code, 1);
  EXPECT_EQ(Json::parse(different.out)["different"], 1);
}

TEST_F(TokenizerCommandTest, VerifyChecksTheGoldensOfEveryKind) {
  for (const std::string kind : {"gpt2", "llama3", "qwen2", "llama2", "metaspace", "unigram"}) {
    const Ended result = run_in_process({"verify", "--tokenizer", kTokenizers + kind, "--golden",
                                         kTokenizers + kind + "/golden.json"});
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    EXPECT_EQ(result.out.find("equal: "), 0U) << result.out;
  }
}

TEST_F(TokenizerCommandTest, AFileWithoutItsMergesIsRefused) {
  std::ifstream whole(kTokenizers + "gpt2/tokenizer.json");
  Json document = Json::parse(whole);
  document["model"].erase("merges");
  const std::string file = write("tokenizer.json", document.dump());
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"data", "tokens", "x", "--tokenizer", folder_},
           {"data", "prepare", file, "--tokenizer", folder_, "--out", folder_ + "/set"},
           {"verify", "--tokenizer", folder_, "--golden", kTokenizers + "gpt2/golden.json"}}) {
    const Ended ended = run_in_process(words);
    EXPECT_EQ(ended.code, 2) << words[1];
    EXPECT_NE(ended.err.find("tokenizer.json: model: 'merges' is missing"), std::string::npos)
        << ended.err;
    EXPECT_NE(ended.err.find("copy the file again"), std::string::npos) << ended.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/set"));
}

TEST_F(TokenizerCommandTest, MistakesAreNamed) {
  const Ended missing = run_in_process({"data", "tokens", "x", "--tokenizer", folder_});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("has no tokenizer.json"), std::string::npos) << missing.err;
  const Ended alone = run_in_process({"verify", "--tokenizer", kTokenizers + "gpt2"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.err.find("give --golden FILE"), std::string::npos) << alone.err;
  const Ended small = run_in_process(
      {"data", "tokenizer", "train", write("t.txt", "abc"), "--vocab", "100", "--out", folder_});
  EXPECT_EQ(small.code, 2);
  EXPECT_NE(small.err.find("the 256 bytes"), std::string::npos) << small.err;
}

}  // namespace
}  // namespace tessera
