// Every request that is refused says why in the shape of OpenAI's API, and costs the generator
// nothing.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/testing/api_server.h"

namespace tessera::serve {
namespace {

using testing::ApiServer;
using testing::ApiSetup;
using testing::Json;
using testing::kChat;
using testing::kCompletions;

struct Refusal {
  const char* path;
  std::string body;
  int status;
  const char* code;
  const char* param;  // empty: none
};

void expect_refused(ApiServer& server, const Refusal& wanted) {
  SCOPED_TRACE(wanted.body.substr(0, 200));
  const http::TestResponse response = server.post(wanted.path, wanted.body);
  EXPECT_EQ(response.status, wanted.status) << response.body;
  const Json json = Json::parse(response.body, nullptr, false);
  ASSERT_TRUE(json.is_object() && json.contains("error")) << response.body;
  const Json& error = json["error"];
  EXPECT_EQ(error["code"], wanted.code) << error["message"];
  EXPECT_EQ(error["type"], wanted.status == 404 ? "not_found_error" : "invalid_request_error");
  const Json param = *wanted.param == '\0' ? Json() : Json(wanted.param);
  EXPECT_EQ(error["param"], param) << error["message"];
  EXPECT_FALSE(error["message"].get<std::string>().empty());
}

std::string completion_with(const std::string& fields) {
  return R"({"prompt":"x",)" + fields + "}";
}
std::string chat_with(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"x"}],)" + fields + "}";
}

TEST(ApiErrorsTest, JsonThatIsNoneIsRefused) {
  ApiServer server;
  const std::string deep(65, '[');
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("{\"prompt\":\"x\""), std::string("nul"),
        std::string("{\"prompt\":\"\xff\"}"), std::string("{\"prompt\":NaN}"),
        std::string("{\"prompt\":Infinity}"), std::string("{'prompt':1}"),
        "{\"prompt\":" + deep + std::string(65, ']') + "}", deep,
        std::string("{\"prompt\":\"x\"}{}"), std::string("{\"prompt\":\"\\ud800\"}"),
        std::string("{\"prompt\":\"x\",\"temperature\":1e999}")}) {
    expect_refused(server, {kCompletions, body, 400, "invalid_json", ""});
    expect_refused(server, {kChat, body, 400, "invalid_json", ""});
  }
  for (const char* body : {"[]", "1", "null", "\"x\"", "true"}) {
    expect_refused(server, {kCompletions, body, 400, "invalid_value", ""});
  }
  EXPECT_TRUE(server.generator().asked().empty());
}

TEST(ApiErrorsTest, JsonAsDeepAsItMayBeIsRead) {
  ApiServer server;
  // 63 lists in an object are 64: a field that is none of ours is named, not the depth.
  const std::string body = completion_with("\"x\":" + std::string(63, '[') + std::string(63, ']'));
  expect_refused(server, {kCompletions, body, 400, "unknown_field", "x"});
}

TEST(ApiErrorsTest, ABodyAboveTheLimitIsRefusedAndOneAtItIsRead) {
  ApiServer server;
  const size_t most = size_t{2} << 20;
  const std::string head = R"({"prompt":")", tail = "\"}";
  const auto body_of = [&](size_t bytes) {
    return head + std::string(bytes - head.size() - tail.size(), 'x') + tail;
  };
  expect_refused(server, {kCompletions, body_of(most), 400, "context_length_exceeded", "prompt"});
  expect_refused(server, {kCompletions, body_of(most + 1), 413, "too_large", ""});
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x"})").status, 200);
}

TEST(ApiErrorsTest, NumbersOutOfRangeAreRefusedInEveryField) {
  ApiServer server;
  const std::vector<std::string> never = {"-9223372036854775809",
                                          "9223372036854775808",
                                          "18446744073709551616",
                                          "1e308",
                                          "-1e308",
                                          "\"1\"",
                                          "[1]",
                                          "{}",
                                          "true"};
  for (const char* field : {"n", "max_tokens", "top_k", "min_tokens", "priority", "seed"}) {
    for (const std::string& value : never) {
      const std::string both = fmt::format("\"{}\":{}", field, value);
      expect_refused(server, {kCompletions, completion_with(both), 400, "invalid_value", field});
      expect_refused(server, {kChat, chat_with(both), 400, "invalid_value", field});
    }
    const std::string real = fmt::format("\"{}\":1.5", field);
    expect_refused(server, {kCompletions, completion_with(real), 400, "invalid_value", field});
  }
  for (const char* field : {"temperature", "top_p", "min_p", "presence_penalty",
                            "frequency_penalty", "repetition_penalty", "timeout"}) {
    for (const std::string& value : never) {
      const std::string both = fmt::format("\"{}\":{}", field, value);
      expect_refused(server, {kCompletions, completion_with(both), 400, "invalid_value", field});
      expect_refused(server, {kChat, chat_with(both), 400, "invalid_value", field});
    }
  }
  for (const char* field : {"stream", "echo", "return_token_ids", "ignore_eos"}) {
    for (const char* value : {"1", "\"true\"", "[]"}) {
      const std::string both = fmt::format("\"{}\":{}", field, value);
      expect_refused(server, {kCompletions, completion_with(both), 400, "invalid_value", field});
    }
  }
  EXPECT_TRUE(server.generator().asked().empty());
}

TEST(ApiErrorsTest, EdgesOfRangesAreRefusedAndTaken) {
  ApiServer server;
  struct Edge {
    const char* field;
    std::vector<const char*> refused, taken;
  };
  const std::vector<Edge> edges = {
      {"temperature", {"-0.001", "2.001"}, {"0", "2"}},
      {"top_p", {"-0.1", "1.001"}, {"0", "1"}},
      {"min_p", {"-0.1", "1.001"}, {"0", "1"}},
      {"top_k", {"-2", "2147483648"}, {"-1", "0", "2147483647"}},
      {"presence_penalty", {"-2.1", "2.1"}, {"-2", "2"}},
      {"frequency_penalty", {"-2.1", "2.1"}, {"-2", "2"}},
      {"repetition_penalty", {"0", "-1", "101"}, {"0.01", "100"}},
      {"n", {"0", "-1", "17"}, {"1", "16"}},
      {"seed", {}, {"-9223372036854775808", "9223372036854775807", "0"}},
      {"priority", {"-1001", "1001"}, {"-1000", "1000"}},
      {"timeout", {"0", "-1", "86401"}, {"86400"}},
      {"min_tokens", {"-1", "17"}, {"0", "16"}},
  };
  for (const Edge& edge : edges) {
    for (const char* value : edge.refused) {
      const std::string body = completion_with(fmt::format("\"{}\":{}", edge.field, value));
      expect_refused(server, {kCompletions, body, 400, "invalid_value", edge.field});
    }
    for (const char* value : edge.taken) {
      const std::string body = completion_with(fmt::format("\"{}\":{}", edge.field, value));
      EXPECT_EQ(server.post(kCompletions, body).status, 200) << body;
    }
  }
}

TEST(ApiErrorsTest, FieldsThatCannotBeMeantAreRefusedByName) {
  ApiServer server;
  const std::vector<Refusal> refusals = {
      {kCompletions, "{}", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":null})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":""})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":[]})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":[[]]})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":["a",1]})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":[1,"a"]})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":[256]})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":[-1]})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":[1.0]})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":[9223372036854775808]})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":{}})", 400, "invalid_value", "prompt"},
      {kCompletions, R"({"prompt":1})", 400, "invalid_value", "prompt"},
      {kCompletions, completion_with(R"("stop":["a","b","c","d","e"])"), 400, "invalid_value",
       "stop"},
      {kCompletions, completion_with(R"("stop":"")"), 400, "invalid_value", "stop"},
      {kCompletions, completion_with(R"("stop":[1])"), 400, "invalid_value", "stop"},
      {kCompletions, completion_with("\"stop\":\"" + std::string(65, 'x') + "\""), 400,
       "invalid_value", "stop"},
      {kCompletions, completion_with(R"("stop_token_ids":[256])"), 400, "invalid_value",
       "stop_token_ids"},
      {kCompletions, completion_with(R"("stop_token_ids":7)"), 400, "invalid_value",
       "stop_token_ids"},
      {kCompletions, completion_with(R"("logit_bias":{"256":1})"), 400, "invalid_value",
       "logit_bias"},
      {kCompletions, completion_with(R"("logit_bias":{"-1":1})"), 400, "invalid_value",
       "logit_bias"},
      {kCompletions, completion_with(R"("logit_bias":{"1":101})"), 400, "invalid_value",
       "logit_bias"},
      {kCompletions, completion_with(R"("logit_bias":{"1":"x"})"), 400, "invalid_value",
       "logit_bias"},
      {kCompletions, completion_with(R"("logit_bias":{"1x":1})"), 400, "invalid_value",
       "logit_bias"},
      {kCompletions, completion_with(R"("logit_bias":[])"), 400, "invalid_value", "logit_bias"},
      {kCompletions, completion_with(R"("logprobs":21)"), 400, "invalid_value", "logprobs"},
      {kCompletions, completion_with(R"("logprobs":true)"), 400, "invalid_value", "logprobs"},
      {kCompletions, completion_with(R"("stream_options":{"include_usage":true})"), 400,
       "invalid_value", "stream_options"},
      {kCompletions, completion_with(R"("stream":true,"stream_options":{"usage":true})"), 400,
       "unknown_field", "stream_options.usage"},
      {kCompletions, completion_with(R"("suffix":"x")"), 400, "unsupported_value", "suffix"},
      {kCompletions, completion_with(R"("best_of":3)"), 400, "unsupported_value", "best_of"},
      {kCompletions, completion_with(R"("max_token":3)"), 400, "unknown_field", "max_token"},
      {kCompletions, completion_with(R"("model":"other")"), 404, "model_not_found", "model"},
      {kCompletions, completion_with(R"("model":7)"), 400, "invalid_value", "model"},
      {kCompletions, completion_with(R"("response_format":{"type":"xml"})"), 400, "invalid_value",
       "response_format.type"},
      {kCompletions, completion_with(R"("response_format":{"type":"json_schema"})"), 400,
       "invalid_value", "response_format.json_schema"},
      {kCompletions,
       completion_with(R"("response_format":{"type":"json_schema","json_schema":{}})"), 400,
       "invalid_value", "response_format.json_schema.schema"},
      {kCompletions,
       completion_with(
           R"("response_format":{"type":"json_schema","json_schema":{"schema":{"type":"wrong"}}})"),
       400, "invalid_value", "response_format"},
      {kChat, "{}", 400, "invalid_value", "messages"},
      {kChat, R"({"messages":[]})", 400, "invalid_value", "messages"},
      {kChat, R"({"messages":"x"})", 400, "invalid_value", "messages"},
      {kChat, R"({"messages":[1]})", 400, "invalid_value", "messages[0]"},
      {kChat, R"({"messages":[{"role":"user"}]})", 400, "invalid_value", "messages[0].content"},
      {kChat, R"({"messages":[{"role":"king","content":"x"}]})", 400, "invalid_value",
       "messages[0].role"},
      {kChat, R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", 400,
       "unsupported_value", "messages[0].content"},
      {kChat, R"({"messages":[{"role":"user","content":"x","colour":1}]})", 400, "unknown_field",
       "messages[0].colour"},
      {kChat, chat_with(R"("prompt":"x")"), 400, "unknown_field", "prompt"},
      {kChat, chat_with(R"("top_logprobs":2)"), 400, "invalid_value", "top_logprobs"},
      {kChat, chat_with(R"("logprobs":true,"top_logprobs":21)"), 400, "invalid_value",
       "top_logprobs"},
      {kChat, chat_with(R"("max_tokens":2,"max_completion_tokens":3)"), 400, "invalid_value",
       "max_tokens"},
      {kChat, chat_with(R"("tools":[{"type":"function"}])"), 400, "unsupported_value", "tools"},
      {kChat, chat_with(R"("modalities":["audio"])"), 400, "unsupported_value", "modalities"},
  };
  for (const Refusal& refusal : refusals) expect_refused(server, refusal);
  EXPECT_TRUE(server.generator().asked().empty());
}

TEST(ApiErrorsTest, AnswersMustFitIntoTheContext) {
  ApiSetup setup;
  setup.script.max_context = 100;
  ApiServer server(setup);
  const auto body_of = [](size_t prompt, const std::string& more) {
    return fmt::format("{{\"prompt\":\"{}\"{}}}", std::string(prompt, 'x'), more);
  };
  const auto refused = [&](const std::string& body) {
    expect_refused(server, {kCompletions, body, 400, "context_length_exceeded", "prompt"});
  };
  refused(body_of(100, ""));  // no room for a token
  refused(body_of(101, ""));
  refused(body_of(100, R"(,"max_tokens":1)"));
  refused(body_of(99, R"(,"max_tokens":2)"));
  refused(body_of(1, R"(,"max_tokens":100)"));
  refused(body_of(1, R"(,"max_tokens":2147483647)"));
  refused(body_of(100, R"(,"max_tokens":1,"echo":true)"));
  expect_refused(
      server, {kCompletions, body_of(3, R"(,"max_tokens":0)"), 400, "invalid_value", "max_tokens"});
  const std::string message = Json::parse(
      server.post(kCompletions, body_of(99, R"(,"max_tokens":2)")).body)["error"]["message"];
  for (const char* number : {"100", "99", "101"}) {
    EXPECT_NE(message.find(number), std::string::npos) << message;
  }
  EXPECT_TRUE(server.generator().asked().empty());

  const auto tokens_of = [&](const std::string& body) {
    return server.answer(kCompletions, Json::parse(body))["usage"]["completion_tokens"];
  };
  EXPECT_EQ(tokens_of(body_of(99, "")), 1);
  EXPECT_EQ(tokens_of(body_of(99, R"(,"max_tokens":1)")), 1);
  EXPECT_EQ(tokens_of(body_of(1, R"(,"max_tokens":99)")), 99);
  EXPECT_EQ(tokens_of(body_of(3, "")), 16);
  EXPECT_EQ(tokens_of(body_of(90, "")), 10);
  // A chat's answer may have all that is left.
  const std::string chat = R"({"messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(server.answer(kChat, Json::parse(chat))["usage"]["completion_tokens"], 59);
}

// The prompt alone needs no room behind it, but is looked at with one token.
TEST(ApiErrorsTest, APromptAsLongAsTheContextCanBeLookedAtWhereItIsShown) {
  ApiSetup setup;
  setup.script.max_context = 100;
  ApiServer server(setup);
  const auto body = fmt::format(R"({{"prompt":"{}","max_tokens":0,"echo":true,"logprobs":0}})",
                                std::string(99, 'x'));
  const Json answer = server.answer(kCompletions, Json::parse(body));
  ASSERT_TRUE(answer.contains("choices")) << answer;
  EXPECT_EQ(answer["choices"][0]["logprobs"]["tokens"].size(), 99);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
}

TEST(ApiErrorsTest, TooManyAnswersAreRefused) {
  ApiServer server;
  Json prompts = Json::array();
  for (int i = 0; i < 64; ++i) prompts.push_back("x");
  EXPECT_EQ(server.post(kCompletions, Json{{"prompt", prompts}, {"n", 2}}.dump()).status, 200);
  expect_refused(server, {kCompletions, Json{{"prompt", prompts}, {"n", 3}}.dump(), 400,
                          "invalid_value", "n"});
  prompts.push_back("x");
  expect_refused(server,
                 {kCompletions, Json{{"prompt", prompts}}.dump(), 400, "invalid_value", "prompt"});
}

TEST(ApiErrorsTest, AModelWithoutWordsTakesAndGivesIdsAlone) {
  ApiSetup setup;
  setup.words = no_words({7});
  setup.script.answer = [](const GenerationRequest&, int) { return std::vector<int32_t>{5, 6, 7}; };
  ApiServer server(setup);
  const Json choice = server.choice(kCompletions, {{"prompt", {1, 2}}, {"logprobs", 1}});
  EXPECT_EQ(choice["token_ids"], Json::array({5, 6})) << choice;
  EXPECT_EQ(choice["text"], "");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json::array({"token_id:5", "token_id:6"}));
  expect_refused(server, {kCompletions, R"({"prompt":"x"})", 400, "invalid_value", "prompt"});
  expect_refused(server,
                 {kCompletions, R"({"prompt":[1],"stop":"x"})", 400, "invalid_value", "stop"});
  expect_refused(server, {kChat, R"({"messages":[{"role":"user","content":"x"}]})", 400,
                          "invalid_value", "messages"});
}

}  // namespace
}  // namespace tessera::serve
