// Models that are started as users start them, with ranks as threads, and what they say.
#include "serve/start/start_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "launch/testing/test_process.h"
#include "serve/start/rank_task.h"
#include "serve/testing/served_model.h"
#include "serve/testing/start_scene.h"
#include "serve/testing/text_listener.h"

extern char** environ;

namespace tessera::serve {
namespace {

using namespace tessera::serve::testing;
using tessera::testing::contains;
using tessera::testing::TestFolder;

class GreedyText : public ::testing::TestWithParam<std::string> {};

TEST_P(GreedyText, IsThatOfTheReferenceOnEveryMesh) {
  std::string folder;
  for (const std::string& one : greedy_folders()) {
    if (std::filesystem::path(one).filename() == GetParam()) folder = one;
  }
  if (folder.empty()) GTEST_SKIP() << "no greedy.json of " << GetParam() << " is here";
  std::ifstream file(folder + "/greedy.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const auto prompt = golden["prompt"].get<std::vector<int32_t>>();
  const auto whole = golden["greedy"].get<std::vector<int32_t>>();
  const std::vector<int32_t> expected(whole.begin() + std::ssize(prompt), whole.end());
  for (const auto& [tp, pp] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 2}, {2, 2}}) {
    StartOptions options = start_options(folder);
    options.ranks.tp = tp;
    options.ranks.pp = pp;
    const auto started = start_model(options);
    EXPECT_EQ(answer_of(started->generator(), greedy_request(prompt, std::ssize(expected))),
              expected)
        << "tp = " << tp << ", pp = " << pp;
    EXPECT_EQ(started->generator().stats().pages_used, 0);
    EXPECT_FALSE(started->served().words->has_text());
    EXPECT_EQ(started->served().id, GetParam());
  }
}

// Those whose record agrees with the folder's own logits (docs/models.md).
INSTANTIATE_TEST_SUITE_P(Folders, GreedyText,
                         ::testing::Values("gpt2", "llama-gqa", "llama31-rope", "mistral-window",
                                           "qwen2", "qwen3"),
                         [](const auto& folder) {
                           std::string name = folder.param;
                           std::erase(name, '-');
                           return name;
                         });

// The likeliest token by training's own forward, again and again.
std::vector<int32_t> greedy_by_training(const testing::ServedModel& model, Text text,
                                        size_t tokens) {
  Text answer;
  while (answer.size() < tokens) {
    const Rows rows = reference_logits(model, {text}).front();
    const auto& row = rows.back();
    answer.push_back(static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
    text.push_back(answer.back());
  }
  return answer;
}

TEST(StartModelTest, EveryFolderSaysWhatTrainingSays) {
  for (const std::string& folder : model_folders()) {
    SCOPED_TRACE(folder);
    const Text prompt = {3, 1, 4, 1, 5, 9, 2, 6};
    StartOptions options = start_options(folder);
    options.ranks.tp = 2;
    options.ranks.page_size = 4;
    const auto started = start_model(options);
    EXPECT_EQ(answer_of(started->generator(), greedy_request(prompt, 6)),
              greedy_by_training(folder_model(folder), prompt, 6));
    EXPECT_EQ(started->plan().options.num_pages, started->plan().shape.num_pages);
    EXPECT_EQ(started->gave_up(), std::nullopt);
  }
}

// Saved by ranks of one mesh, served by those of another: the same tokens.
TEST(StartModelTest, RunsAndCheckpointsOfEveryMeshSayTheSame) {
  const Text prompt = {1, 35, 7, 7, 20};
  for (const char* saved : {"tp=1", "tp=2", "pp=2", "tp=2,pp=2"}) {
    const TestFolder folder;
    const std::string run = train_run(folder, saved);
    const std::string checkpoint = run + "/checkpoints/step-00000002";
    const Text expected = greedy_by_training(folder_model(run), prompt, 10);
    for (const std::string& model : {run, checkpoint}) {
      for (const auto& [tp, pp] : {std::pair{1, 1}, std::pair{4, 1}, std::pair{2, 2}}) {
        StartOptions options = start_options(model);
        options.ranks.tp = tp;
        options.ranks.pp = pp;
        options.ranks.max_context = 0;
        const auto started = start_model(options);
        EXPECT_EQ(answer_of(started->generator(), greedy_request(prompt, 10)), expected)
            << model << " of " << saved << " on tp = " << tp << ", pp = " << pp;
      }
    }
  }
}

TEST(StartModelTest, ARunOfBytesSpeaksBytesAndJson) {
  const TestFolder folder;
  const auto started = start_model(start_options(train_run(folder, "tp=1")));
  const serve::ServedModel& served = started->served();
  EXPECT_TRUE(served.words->has_text());
  EXPECT_EQ(served.vocab, 256);
  ASSERT_TRUE(served.make_grammar);
  GenerationRequest request = greedy_request(served.words->encode("a", true), 30);
  request.sampling.temperature = 1;
  request.grammar = served.make_grammar({{"type", "object"},
                                         {"properties", {{"is", {{"type", "boolean"}}}}},
                                         {"required", {"is"}},
                                         {"additionalProperties", false}});
  auto listener = std::make_shared<TextListener>();
  ASSERT_EQ(started->generator().submit(std::move(request), listener).refused, Refused::kNo);
  ASSERT_TRUE(listener->wait());
  EXPECT_EQ(listener->choice().finish, FinishReason::kStop) << listener->choice().why;
  std::string text;
  for (const int32_t byte : listener->ids()) text += static_cast<char>(byte);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  EXPECT_TRUE(json.is_object() && json["is"].is_boolean()) << text;
}

// A model may have room for more tokens than its tokenizer knows: those are never said.
TEST(StartModelTest, ARunWithATokenizerSpeaksItsTokensAlone) {
  const TestFolder folder;
  const std::string run = train_run(folder, "tp=1", /*vocab=*/600);
  const std::string tokenizers = std::string(TESSERA_SOURCE_DIR) + "/tests/data/tokenizers/";
  std::filesystem::copy(tokenizers + "gpt2/tokenizer.json", run);
  for (const bool processes : {false, true}) {
    StartOptions options = start_options(run);
    options.name = "told";
    options.ranks.tp = 2;
    options.processes = processes;
    options.environment = environment_from(environ);
    const auto started = start_model(options);
    const serve::ServedModel& served = started->served();
    EXPECT_EQ(served.id, "told");
    EXPECT_GT(served.vocab, 500);
    EXPECT_LT(served.vocab, 600);
    EXPECT_EQ(served.vocab, started->generator().vocab());
    for (uint64_t seed = 0; seed < 10; ++seed) {
      GenerationRequest request = greedy_request(served.words->encode("Once", true), 20);
      request.sampling.temperature = 2;
      request.sampling.seed = seed;
      for (const int32_t token : answer_of(started->generator(), std::move(request))) {
        EXPECT_LT(token, served.vocab);
      }
    }
  }
  StartOptions wrong = start_options(run);
  wrong.tokenizer = tokenizers + "llama2";
  EXPECT_THROW((void)start_model(wrong), ConfigError);
}

TEST(StartModelTest, AReplicaAnswersLikeTheOther) {
  const NothingIsLeft check;
  const std::string model = model_folders().front();
  StartOptions options = start_options(model);
  options.replicas = 2;
  options.ranks.tp = 2;
  const auto started = start_model(options);
  const Text prompt = {3, 1, 4};
  const Text expected = greedy_by_training(folder_model(model), prompt, 5);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(answer_of(started->generator(), greedy_request(prompt, 5)), expected);
  }
  const GeneratorStats stats = started->generator().stats();
  EXPECT_EQ(stats.pages, 2 * started->plan().shape.num_pages);
  EXPECT_EQ(stats.pages_used, 0);
}

TEST(StartModelTest, DamagedWeightsFailRequestsAndNotTheServer) {
  const TestFolder folder;
  const std::string run = train_run(folder, "tp=1");
  std::string bytes = tessera::testing::read_file(run + "/model.safetensors");
  bytes.replace(bytes.size() - 8, 8, 8, '\xff');  // NaN in whatever type
  folder.write("run/model.safetensors", bytes);
  const auto started = start_model(start_options(run));
  for (int i = 0; i < 2; ++i) {
    const auto heard = std::make_shared<TextListener>();
    ASSERT_EQ(started->generator().submit(greedy_request({1, 2}, 5), heard).refused, Refused::kNo);
    ASSERT_TRUE(heard->wait());
    EXPECT_EQ(heard->choice().finish, FinishReason::kFailed);
    EXPECT_TRUE(contains(heard->choice().why, "NaN")) << heard->choice().why;
  }
  EXPECT_EQ(started->gave_up(), std::nullopt);
  EXPECT_EQ(started->generator().stats().pages_used, 0);
}

TEST(RankTaskTest, SaysAllThatRanksPlanBy) {
  ServeOptions options;
  options.model = "runs/\"odd\" name";
  options.tp = 2;
  options.pp = 3;
  options.ep = 2;
  options.dtype = DType::kBF16;
  options.threads = 5;
  options.max_context = 777;
  options.page_size = 32;
  options.num_pages = 99;
  options.memory_bytes = int64_t{1} << 40;
  options.max_tokens = 512;
  options.max_sequences = 7;
  options.max_rows = 9;
  options.timeout = std::chrono::milliseconds(1234);
  const std::string text = task_of(options);
  EXPECT_EQ(task_of(options_of_task(text)), text);
  EXPECT_EQ(options_of_task(text).timeout, options.timeout);
  EXPECT_EQ(options_of_task(text).model, options.model);
  EXPECT_EQ(options_of_task(text).max_rows, 9);
  for (const char* bad : {"", "{}", "3", "{\"model\":1}"}) {
    EXPECT_THROW((void)options_of_task(bad), ConfigError) << bad;
  }
}

TEST(StartModelTest, RefusesByName) {
  const std::string model = model_folders().front();
  const auto refusal = [&](const std::function<void(StartOptions&)>& change) {
    StartOptions options = start_options(model);
    change(options);
    try {
      (void)start_model(options);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("it starts");
  };
  const auto expect = [&](const std::string& text, const std::string& word) {
    EXPECT_TRUE(contains(text, word)) << text;
  };
  expect(refusal([](auto& o) { o.ranks.model = ""; }), "no model");
  expect(refusal([](auto& o) { o.ranks.model = "/nowhere"; }), "/nowhere");
  expect(refusal([](auto& o) { o.ranks.tp = 0; }), "tp is 0");
  expect(refusal([](auto& o) { o.replicas = 65; }), "dp is 65");
  expect(refusal([](auto& o) { o.ranks.dtype = DType::kF16; }), "f16");
  expect(refusal([](auto& o) { o.ranks.max_context = 1 << 20; }), "max_context");
  expect(refusal([](auto& o) { o.most_waiting = 0; }), "1 at least");
  expect(refusal([](auto& o) { o.chat_template = "x.jinja"; }), "--tokenizer");
  const TestFolder folder;
  const std::string run = train_run(folder, "tp=1");
  std::filesystem::remove(run + "/model.safetensors");
  expect(refusal([&](auto& o) { o.ranks.model = run; }), "did not come to its end");
}

TEST(StartModelTest, WhatDoesNotFitHasItsExitCode) {
  StartOptions options = start_options(model_folders().front());
  options.ranks.memory_bytes = 1000;
  try {
    (void)start_model(options);
    FAIL() << "it starts";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDoesNotFit) << error.what();
  }
}

}  // namespace
}  // namespace tessera::serve
