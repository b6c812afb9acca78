// Bodies that were changed at random: each is read, or refused with a status and a message, and
// what was read keeps within all limits.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/testing/share.h"
#include "serve/api/api_error.h"
#include "serve/api/asked.h"
#include "serve/testing/api_server.h"
#include "serve/testing/asked_limits.h"

namespace tessera::serve {
namespace {

using testing::chat_template_path;
using testing::Json;

ServedModel model() {
  ServedModel model;
  model.id = "toy";
  model.words = words_of_bytes(chat_template_path());
  model.vocab = 256;
  model.max_context = 300;
  model.make_grammar = [](const Json& schema) {
    GrammarLimits limits;
    limits.steps = 100'000;
    limits.states = 2000;
    return make_grammar(compile_schema(schema, limits), TokenBytes::single_bytes(), {0});
  };
  return model;
}

const char* const kSeeds[] = {
    R"({"model":"toy","prompt":["a",[1,2]],"n":2,"max_tokens":5,"logprobs":3,"stop":["x","y"],"echo":true})",
    R"({"prompt":"abc","temperature":0.5,"top_p":0.9,"top_k":4,"min_p":0.1,"seed":7,"logit_bias":{"5":-100},"stream":true,"stream_options":{"include_usage":true}})",
    R"({"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]}],"max_completion_tokens":9,"logprobs":true,"top_logprobs":2,"stop":"z"})",
    R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}},"presence_penalty":1,"timeout":5,"chat_template_kwargs":{"k":[1]}})",
    R"({"prompt":[1,2,3],"stop_token_ids":[1],"ignore_eos":true,"min_tokens":1,"return_token_ids":true,"priority":-3,"cache_salt":"s","repetition_penalty":1.1,"response_format":{"type":"json_object"}})"};

using Random = std::mt19937_64;

Json random_value(Random& random) {
  static const Json values[] = {nullptr,
                                true,
                                0,
                                -1,
                                1,
                                16,
                                17,
                                255,
                                256,
                                INT64_MAX,
                                INT64_MIN,
                                UINT64_MAX,
                                0.0,
                                -0.0,
                                1e300,
                                "",
                                "x",
                                std::string(70, 'y'),
                                "\xE2\x82\xAC",
                                Json::array(),
                                Json::object(),
                                Json::array({1, 2}),
                                Json::array({"a", nullptr}),
                                Json{{"type", "text"}}};
  return values[random() % std::size(values)];
}

// Changes one value somewhere inside.
void change(Json& json, Random& random) {
  if (json.is_structured() && !json.empty() && random() % 4 != 0) {
    auto at = json.begin();
    std::advance(at, static_cast<ptrdiff_t>(random() % json.size()));
    if (random() % 8 == 0) {
      json.erase(at);
      return;
    }
    change(*at, random);
    return;
  }
  if (json.is_object() && random() % 2 == 0) {
    static const char* const names[] = {"n", "stop", "tools", "prompt", "messages", "role", "type"};
    json[names[random() % std::size(names)]] = random_value(random);
    return;
  }
  if (json.is_array() && random() % 2 == 0) {
    json.push_back(random_value(random));
    return;
  }
  json = random_value(random);
}

std::string changed(Random& random) {
  Json json = Json::parse(kSeeds[random() % std::size(kSeeds)]);
  for (uint64_t i = 0, times = random() % 4; i < times; ++i) change(json, random);
  std::string text = json.dump();
  // Bytes, too.
  for (uint64_t i = 0, times = random() % 3 == 0 ? random() % 4 : 0; i < times; ++i) {
    const size_t at = random() % (text.size() + 1);
    switch (random() % 4) {
      case 0:
        text.insert(at, 1, static_cast<char>(random() % 256));
        break;
      case 1:
        text.erase(at, random() % 5);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), random() % 20));
        break;
      default:
        text.resize(at);
    }
    if (text.empty()) break;
  }
  return text;
}

TEST(ApiFuzzTest, ChangedBodiesAreReadOrRefusedByName) {
  const ServedModel served = model();
  Random random(20);
  const int bodies = tessera::testing::tries_all() ? 300'000 : 6'000;
  int read = 0;
  for (int i = 0; i < bodies; ++i) {
    const std::string body = changed(random);
    try {
      const Asked asked = i % 3 == 0   ? read_completion(body, served)
                          : i % 3 == 1 ? read_chat(body, served)
                                       : read_either(body, served, nullptr);
      ASSERT_EQ(broken_limit(asked, served), "") << body;
      ++read;
    } catch (const ApiError& error) {
      ASSERT_TRUE(error.status() == 400 || error.status() == 404 || error.status() == 413) << body;
      ASSERT_FALSE(std::string(error.what()).empty());
      ASSERT_TRUE(Json::accept(error.body())) << body;
      ASSERT_LT(error.body().size(), 2000) << body;
    }
  }
  // Neither all nor none, or nothing was tried.
  EXPECT_GT(read, bodies / 20);
  EXPECT_LT(read, bodies * 9 / 10);
}

TEST(ApiFuzzTest, EveryBeginningOfABodyIsRefused) {
  const ServedModel served = model();
  for (const char* seed : kSeeds) {
    const std::string whole = seed;
    for (size_t length = 0; length < whole.size(); ++length) {
      EXPECT_THROW((void)read_either(whole.substr(0, length), served, nullptr), ApiError);
    }
    EXPECT_NO_THROW((void)read_either(whole, served, nullptr)) << whole;
  }
}

}  // namespace
}  // namespace tessera::serve
