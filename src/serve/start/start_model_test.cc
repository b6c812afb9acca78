// Models that are started as users start them, and what they say.
#include "serve/start/start_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "launch/testing/test_process.h"
#include "serve/testing/served_model.h"
#include "serve/testing/text_listener.h"

namespace tessera::serve {
namespace {

using namespace tessera::serve::testing;
using tessera::testing::contains;

StartOptions options_of(const std::string& model) {
  StartOptions options;
  options.ranks.model = model;
  options.ranks.dtype = DType::kF64;
  options.ranks.threads = 1;
  options.ranks.memory_bytes = int64_t{64} << 20;
  options.ranks.max_tokens = 64;
  options.ranks.timeout = std::chrono::milliseconds(20'000);
  return options;
}

std::vector<int32_t> answer(Generator& generator, GenerationRequest request) {
  auto listener = std::make_shared<TextListener>();
  const Submission submission = generator.submit(std::move(request), listener);
  EXPECT_EQ(submission.refused, Refused::kNo) << submission.why;
  EXPECT_TRUE(listener->wait());
  EXPECT_EQ(listener->choice().finish, FinishReason::kLength) << listener->choice().why;
  EXPECT_EQ(listener->broken, "");
  return listener->ids();
}

class GreedyText : public ::testing::TestWithParam<std::string> {};

TEST_P(GreedyText, IsThatOfTheReferenceOnEveryMesh) {
  std::string folder;
  for (const std::string& one : model_folders()) {
    const std::filesystem::path path = one;
    if (path.filename() == GetParam() && exists(path / "greedy.json")) folder = one;
  }
  if (folder.empty()) GTEST_SKIP() << "no greedy.json of " << GetParam() << " is here";
  std::ifstream file(folder + "/greedy.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const auto prompt = golden["prompt"].get<std::vector<int32_t>>();
  const auto whole = golden["greedy"].get<std::vector<int32_t>>();
  const std::vector<int32_t> expected(whole.begin() + std::ssize(prompt), whole.end());
  for (const auto& [tp, pp] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 2}, {2, 2}}) {
    StartOptions options = options_of(folder);
    options.ranks.tp = tp;
    options.ranks.pp = pp;
    const auto started = start_model(options);
    EXPECT_EQ(answer(started->generator(), greedy_request(prompt, std::ssize(expected))), expected)
        << "tp = " << tp << ", pp = " << pp;
    EXPECT_EQ(started->generator().stats().pages_used, 0);
    EXPECT_FALSE(started->served().words->has_text());
    EXPECT_EQ(started->served().id, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, GreedyText,
                         ::testing::Values("gpt2", "llama-gqa", "llama31-rope", "mistral-window",
                                           "mixtral", "qwen2", "qwen3"),
                         [](const auto& folder) {
                           std::string name = folder.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace tessera::serve
