// Conversations: which tokens carry loss, and that every mesh learns the same from them.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "data/tokenizer/tokenizer.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/session/chat_samples.h"
#include "train/session/session.h"

namespace tessera {
namespace {

using testing::TestFolder;

const std::string kData = std::string(TESSERA_SOURCE_DIR) + "/tests/data/";

constexpr const char* kChats =
    R"({"messages": [{"role": "user", "content": "What is 2+2?"}, {"role": "assistant", "content": "4"}]})"
    "\n\n"
    R"({"messages": [{"role": "user", "content": "Say é"}, {"role": "assistant", "content": "é"}, {"role": "user", "content": "again"}, {"role": "assistant", "content": "é é"}]})"
    "\n";

// A folder as a model comes in: tokenizer and chat template.
void make_model_folder(const TestFolder& folder) {
  std::filesystem::copy(kData + "tokenizers/gpt2/tokenizer.json", folder.path("tokenizer.json"));
  std::filesystem::copy(kData + "templates/chatml.jinja", folder.path("chat_template.jinja"));
  folder.write("chats.jsonl", kChats);
}

RunSpec chat_spec(const TestFolder& folder, const std::string& mesh = "dp=1") {
  RunSpec spec;
  spec.model.layers = 2;
  spec.model.hidden = 16;
  spec.model.ffn = 32;
  spec.model.heads = 4;
  spec.model.vocab = 512;
  spec.parallel = parse_mesh(mesh, {});
  spec.train.seq_len = 64;
  spec.train.global_batch = 4;
  spec.train.steps = 3;
  spec.train.dtype = DType::kF64;
  spec.train.threads = 1;
  spec.optimizer.lr = 1e-2;
  spec.data.chats = folder.path("chats.jsonl");
  spec.data.tokenizer = folder.path();
  spec.logging.run_dir = folder.path("run-" + mesh);
  resolve(spec);
  return spec;
}

// What the labels of a sample say, with | between stretches that are masked.
std::string learned_text(const ChatSamples& chats, int64_t chat, int64_t seq_len,
                         const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens(static_cast<size_t>(seq_len)), labels(tokens.size());
  chats.fill(chat, tokens, labels);
  std::string text;
  std::vector<int32_t> stretch;
  for (size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] >= 0) {
      if (t + 1 < tokens.size() && labels[t] != tokens[t + 1]) ADD_FAILURE() << "label " << t;
      stretch.push_back(labels[t]);
      continue;
    }
    EXPECT_EQ(labels[t], -100);
    if (!stretch.empty()) text += tokenizer.decode(stretch, false) + "|";
    stretch.clear();
  }
  return text + tokenizer.decode(stretch, false);
}

TEST(ChatSamplesTest, LossIsOnWhatTheAssistantSaysAlone) {
  const TestFolder folder;
  make_model_folder(folder);
  RunSpec spec = chat_spec(folder);
  spec.train.seq_len = 128;
  const ChatSamples chats(spec, folder.path("chats.jsonl"));
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  ASSERT_EQ(chats.count(), 2);
  EXPECT_EQ(learned_text(chats, 0, 128, tokenizer), "4<|end|>\n|");
  EXPECT_EQ(learned_text(chats, 1, 128, tokenizer), "é<|end|>\n|é é<|end|>\n|");
}

TEST(ChatSamplesTest, WhatIsTooLongIsCutAndWhatIsSilentLeftOut) {
  const TestFolder folder;
  make_model_folder(folder);
  RunSpec spec = chat_spec(folder);
  spec.train.seq_len = 10;  // the answers come later
  EXPECT_THROW(ChatSamples(spec, folder.path("chats.jsonl")), ConfigError);
  folder.write("silent.jsonl",
               std::string(kChats) + R"({"messages": [{"role": "user", "content": "Hm."}]})");
  spec.train.seq_len = 64;
  const ChatSamples chats(spec, folder.path("silent.jsonl"));
  EXPECT_EQ(chats.count(), 2);
  EXPECT_EQ(chats.silent(), 1);
}

TEST(ChatSamplesTest, MistakesNameFileAndLine) {
  const TestFolder folder;
  make_model_folder(folder);
  folder.write("bad.jsonl", std::string(kChats) + "{\"messages\": 3}\n");
  try {
    (void)ChatSamples(chat_spec(folder), folder.path("bad.jsonl"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("bad.jsonl:4"), std::string::npos) << error.what();
  }
  RunSpec small = chat_spec(folder);
  small.model.vocab = 100;
  EXPECT_THROW(ChatSamples(small, folder.path("chats.jsonl")), ConfigError);
}

// The mean is over the tokens that carry loss, of all ranks together.
TEST(FinetuneTest, EveryMeshLearnsTheSame) {
  const TestFolder folder;
  make_model_folder(folder);
  const auto losses = [&](const std::string& mesh) {
    std::vector<double> curve;
    TrainOptions options;
    options.spec = chat_spec(folder, mesh);
    options.on_progress = [&](const TrainProgress& progress) { curve.push_back(progress.loss); };
    run_training(options);
    return curve;
  };
  const std::vector<double> one = losses("dp=1");
  ASSERT_EQ(one.size(), 3U);
  EXPECT_LT(one.back(), one.front());
  for (const char* mesh : {"dp=2,zero=1", "cp=2", "tp=2,sequence_parallel=true", "pp=2"}) {
    const std::vector<double> other = losses(mesh);
    ASSERT_EQ(other.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i], one[i], 1e-11) << mesh;
  }
}

}  // namespace
}  // namespace tessera
