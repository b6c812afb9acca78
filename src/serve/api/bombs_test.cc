// Requests that are made to cost: each is refused with 400 and its reason, and others are answered
// meanwhile.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/test_folder.h"
#include "serve/testing/api_server.h"
#include "serve/testing/schema_bombs.h"

namespace tessera::serve {
namespace {

using testing::ApiServer;
using testing::ApiSetup;
using testing::holds_soon;
using testing::Json;
using testing::kChat;
using testing::kCompletions;
using testing::OpenRequest;

Json schema_request(const Json& schema) {
  return {{"prompt", "x"},
          {"response_format",
           {{"type", "json_schema"}, {"json_schema", {{"name", "bomb"}, {"schema", schema}}}}}};
}

http::TestResponse response_of(OpenRequest& request) {
  const std::string all =
      request.client().read_to_end(std::chrono::milliseconds(120'000));  // under a sanitizer
  return http::parse_response(all);
}

TEST(ApiBombsTest, SchemasThatMultiplyAreRefusedWhileOthersAreAnswered) {
  ApiServer server;
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  std::vector<std::unique_ptr<OpenRequest>> bombs;
  for (const testing::SchemaBomb& bomb : testing::schema_bombs()) {
    bombs.push_back(
        std::make_unique<OpenRequest>(server, kCompletions, schema_request(bomb.schema)));
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x"})").status, 200);
    EXPECT_EQ(server.get("/health/ready").status, 200);
  }
  for (const auto& bomb : bombs) {
    const http::TestResponse response = response_of(*bomb);
    EXPECT_EQ(response.status, 400) << response.body;
    const Json error = Json::parse(response.body)["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_LT(response.body.size(), 2000U);
  }
  EXPECT_EQ(server.post(kCompletions, schema_request({{"type", "object"}}).dump()).status, 200);
}

// A template comes with the model, what it loops over with the request.
TEST(ApiBombsTest, ATemplateThatNeverEndsIsRefused) {
  const tessera::testing::TestFolder folder;
  folder.write("chat.jinja",
               "{%- for m in messages %}{{ m.content }}{% endfor -%}"
               "{%- if grow is defined %}{% set ns = namespace(t='xxxxxxxxxxxxxxxx') %}"
               "{% for i in range(grow) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}"
               "{% endif -%}"
               "{%- if loops is defined %}{% for i in range(loops) %}{% for j in range(loops) %}"
               "{% for k in range(loops) %}{% endfor %}{% endfor %}{% endfor %}{% endif -%}");
  ApiSetup setup;
  setup.words = words_of_bytes(folder.path("chat.jinja"));
  ApiServer server(setup);
  const auto chat = [&](const Json& more) {
    OpenRequest request(server, kChat,
                        {{"messages", {{{"role", "user"}, {"content", "hello"}}}},
                         {"max_tokens", 3},
                         {"chat_template_kwargs", more}});
    return response_of(request);
  };
  EXPECT_EQ(chat({{"grow", 2}, {"loops", 3}}).status, 200);
  for (const Json& bomb : {Json{{"grow", 200}}, Json{{"loops", 100'000}}}) {
    const http::TestResponse response = chat(bomb);
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_LT(response.body.size(), 2000U);
    EXPECT_NE(response.body.find("more than"), std::string::npos) << response.body;
  }
  EXPECT_EQ(chat(Json::object()).status, 200);
}

}  // namespace
}  // namespace tessera::serve
