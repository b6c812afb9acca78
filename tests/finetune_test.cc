// Conversations: which tokens carry loss, and that every mesh learns the same from them.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "data/tokenizer/tokenizer.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "support/packed_chats.h"
#include "support/record.h"
#include "support/token_sets.h"
#include "train/samples/chat_samples.h"
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
  spec.optimizer.eps = 1e-4;  // Adam divides by |g|: near zero it would magnify rounding errors
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
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i], one[i], 1e-12 * one[i]) << mesh;
  }
}

RunSpec packed_spec(const TestFolder& folder, const std::string& mesh = "dp=1") {
  RunSpec spec = testing::packed_chat_spec(folder.path("chat"), mesh);
  spec.logging.run_dir = folder.path("run-" + mesh);
  return spec;
}

// Every conversation is there once, as it would be alone.
TEST(PackedChatsTest, SequencesHoldWholeConversations) {
  const TestFolder folder;
  testing::make_chat_folder(folder.path("chat"));
  RunSpec spec = packed_spec(folder);
  const ChatSamples packed(spec, spec.data.chats);
  spec.data.document_mask = false;
  const ChatSamples alone(spec, spec.data.chats);
  ASSERT_EQ(alone.count(), 9);
  EXPECT_EQ(packed.conversations(), 9);
  EXPECT_LE(packed.count(), 5) << "several fit in a sequence";
  std::multiset<std::vector<int32_t>> expected, found;  // tokens, then labels, of a conversation
  const auto add = [](std::multiset<std::vector<int32_t>>& to, std::span<const int32_t> tokens,
                      std::span<const int32_t> labels) {
    std::vector<int32_t> both(tokens.begin(), tokens.end());
    both.insert(both.end(), labels.begin(), labels.end());
    to.insert(both);
  };
  std::vector<int32_t> tokens(160), labels(160), starts(160);
  for (int64_t i = 0; i < alone.count(); ++i) {
    alone.fill(i, tokens, labels);
    alone.starts(i, starts);
    const auto length = static_cast<size_t>(starts.back());  // where the rest begins
    add(expected, std::span(tokens).first(length), std::span(labels).first(length));
  }
  for (int64_t i = 0; i < packed.count(); ++i) {
    packed.fill(i, tokens, labels);
    packed.starts(i, starts);
    for (size_t begin = 0, t = 1; t <= 160; ++t) {
      if (t < 160 && static_cast<size_t>(starts[t]) == begin) continue;
      const bool is_rest = t == 160 && std::all_of(labels.begin() + static_cast<ptrdiff_t>(begin),
                                                   labels.end(), [](int32_t x) { return x < 0; });
      const auto part = [&](std::vector<int32_t>& x) {
        return std::span(x).subspan(begin, t - begin);
      };
      if (!is_rest) add(found, part(tokens), part(labels));
      begin = t;
    }
  }
  EXPECT_EQ(found, expected);
}

// With rotary positions only distances count, so a conversation is worth the same wherever it is.
TEST(PackedChatsTest, LossIsThatOfTheConversationsAlone) {
  const TestFolder folder;
  testing::make_chat_folder(folder.path("chat"));
  const auto valid_loss = [&](const std::string& mesh, bool packs) {
    RunSpec spec = packed_spec(folder, mesh);
    spec.data.document_mask = packs;
    spec.data.valid = {{"", spec.data.chats}};
    spec.eval.every = 1;
    spec.train.steps = 1;
    spec.optimizer.lr = 1e-14;  // as good as untrained
    spec.logging.run_dir = folder.path(fmt::format("run-{}-{}", mesh, packs));
    TrainOptions options;
    options.spec = spec;
    return run_training(options).measured.at("valid_loss").get<double>();
  };
  const double alone = valid_loss("dp=1", false);
  for (const char* mesh : {"dp=1", "dp=2,zero=1", "tp=2", "cp=2", "pp=2"}) {
    EXPECT_NEAR(valid_loss(mesh, true), alone, 1e-12 * alone) << mesh;
  }
}

TEST(PackedChatsTest, EveryMeshLearnsTheSameAndALeakIsFound) {
  const TestFolder folder;
  testing::make_chat_folder(folder.path("chat"));
  const auto steps = [&](const std::string& mesh, bool with_borders) {
    return record_run(testing::packed_chat_run(packed_spec(folder, mesh), with_borders));
  };
  const std::vector<StepRecord> one = steps("dp=1", true);
  for (const char* mesh : {"dp=2,zero=1", "tp=2,sequence_parallel=true", "cp=2",
                           "cp=2,cp_kind=allgather", "cp=2,cp_kind=ulysses", "pp=2"}) {
    SCOPED_TRACE(mesh);
    testing::expect_equal(steps(mesh, true), one, 1e-12);
  }
  EXPECT_GT(std::abs(steps("dp=1", false).front().loss - one.front().loss), 1e-6);
}

}  // namespace
}  // namespace tessera
