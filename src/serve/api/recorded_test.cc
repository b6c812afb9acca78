// Whole responses, byte for byte but for what names the time and the server: what clients of the
// API are used to. TESSERA_UPDATE_GOLDEN=1 writes tests/golden/serve_api.txt anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "serve/testing/api_server.h"

namespace tessera::serve {
namespace {

using testing::ApiServer;
using testing::ApiSetup;
using testing::bytes_as_tokens;
using testing::kChat;
using testing::kCompletions;

struct Recorded {
  const char* name;
  const char* path;
  const char* body;
};

constexpr Recorded kRecorded[] = {
    {"completion", kCompletions, R"({"model":"toy","prompt":"Say it","max_tokens":3})"},
    {"completion that ends by itself", kCompletions, R"({"prompt":"hello","max_tokens":50})"},
    {"completion of token ids", kCompletions,
     R"({"prompt":[72,105],"max_tokens":3,"return_token_ids":true})"},
    {"completion, n 2 of two prompts", kCompletions,
     R"({"prompt":["a","b"],"n":2,"max_tokens":2})"},
    {"completion with logprobs", kCompletions, R"({"prompt":"x","max_tokens":2,"logprobs":2})"},
    {"completion with the prompt before it", kCompletions,
     R"({"prompt":"xy","max_tokens":2,"echo":true})"},
    {"completion of the prompt alone, with logprobs", kCompletions,
     R"({"prompt":"xyz","max_tokens":0,"echo":true,"logprobs":1})"},
    {"completion that stops", kCompletions, R"({"prompt":"x","stop":["ef","zz"]})"},
    {"completion in a shape", kCompletions,
     R"({"prompt":"x","max_tokens":60,"stop_token_ids":[0],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}}}})"},
    {"completion, streamed", kCompletions, R"({"prompt":"x","max_tokens":2,"stream":true})"},
    {"completion, streamed with all", kCompletions,
     R"({"prompt":"x","max_tokens":2,"stream":true,"logprobs":1,"return_token_ids":true,"stream_options":{"include_usage":true}})"},
    {"chat", kChat,
     R"({"model":"toy","messages":[{"role":"user","content":"hi"}],"max_tokens":3})"},
    {"chat with logprobs", kChat,
     R"({"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":2,"logprobs":true,"top_logprobs":2})"},
    {"chat, n 2, that stops", kChat,
     R"({"messages":[{"role":"user","content":"hi"}],"n":2,"stop":"d"})"},
    {"chat, streamed", kChat,
     R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":true})"},
    {"chat, streamed with usage", kChat,
     R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}})"},
    {"refused field", kChat, R"({"messages":[{"role":"user","content":"hi"}],"temperature":3})"},
    {"refused model", kCompletions, R"({"model":"gpt-4","prompt":"x"})"},
};

std::string timeless(std::string text) {
  text = std::regex_replace(text, std::regex("(cmpl|chatcmpl)-[0-9a-f]+"), "$1-ID");
  return std::regex_replace(text, std::regex("\"created\":[0-9]+"), "\"created\":0");
}

std::string record_all(ApiServer& server) {
  std::string text;
  for (const Recorded& one : kRecorded) {
    const http::TestResponse response = server.post(one.path, one.body);
    text += fmt::format("== {}\nPOST {}\n{}\n-- {} {}\n{}", one.name, one.path, one.body,
                        response.status, response.field("Content-Type"), timeless(response.body));
  }
  for (const char* path : {"/v1/models", "/v1/models/toy", "/v1/models/none", "/health/live",
                           "/health/ready", "/nowhere"}) {
    const http::TestResponse response = server.get(path);
    text += fmt::format("== GET {}\n-- {} {}\n{}", path, response.status,
                        response.field("Content-Type"), timeless(response.body));
  }
  return text;
}

TEST(ApiRecordedTest, ResponsesAreThoseOnRecord) {
  ApiSetup setup;
  setup.script.answer = [](const GenerationRequest& request, int choice) {
    const bool ends = request.prompt == bytes_as_tokens("hello");
    return bytes_as_tokens(ends ? "world"
                                : std::string("abcdefghij").substr(static_cast<size_t>(choice)));
  };
  ApiServer server(setup);
  ASSERT_TRUE(testing::holds_soon([&] { return server.api().why_not_ready().empty(); }));
  const std::string text = record_all(server);
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/tests/golden/serve_api.txt";
  if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string recorded{std::istreambuf_iterator<char>(file),
                             std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, recorded) << "if this is meant: TESSERA_UPDATE_GOLDEN=1";
}

}  // namespace
}  // namespace tessera::serve
