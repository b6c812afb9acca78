// Many clients at once, a queue that is full, clients that never finish their request, deadlines,
// the end of the server.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/share.h"
#include "serve/testing/api_server.h"

namespace tessera::serve {
namespace {

using testing::ApiServer;
using testing::ApiSetup;
using testing::Halt;
using testing::holds_soon;
using testing::Json;
using testing::kChat;
using testing::kCompletions;
using testing::OpenRequest;
using testing::text_of_stream;

std::string alphabet(int tokens) {
  std::string text;
  for (int i = 0; i < tokens; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

TEST(ApiLoadTest, ManyStreamsAtOnceAreAllWhole) {
  const int clients = tessera::testing::tries_all() ? 1000 : 200;
  ApiSetup setup;
  setup.script.most_running = clients;
  setup.script.most_waiting = clients;
  ApiServer server(setup);
  server.generator().halt(Halt::kDecode);
  std::vector<std::unique_ptr<OpenRequest>> open;
  for (int i = 0; i < clients; ++i) {
    open.push_back(std::make_unique<OpenRequest>(
        server, kCompletions,
        Json{{"prompt", std::string(1 + i % 50, 'x')}, {"max_tokens", 30}, {"stream", true}}));
  }
  ASSERT_TRUE(holds_soon([&] { return server.generator().in(Halt::kDecode) >= clients; }));
  EXPECT_EQ(server.api().open(), clients);
  // Whoever asks how it is gets an answer beside them.
  EXPECT_EQ(server.get("/health/live").status, 200);
  EXPECT_EQ(server.get("/metrics").status, 200);
  server.generator().halt(Halt::kNowhere);
  for (const auto& request : open) {
    const std::string all = request->to_end();
    ASSERT_NE(all.find("[DONE]"), std::string::npos);
    ASSERT_EQ(text_of_stream(http::parse_response(all).body), alphabet(30));
  }
  EXPECT_TRUE(holds_soon([&] { return server.api().open() == 0; }));
  EXPECT_TRUE(holds_soon([&] { return server.generator().stats().pages_used == 0; }));
}

TEST(ApiLoadTest, AFullQueueSaysWhenToComeAgain) {
  ApiSetup setup;
  setup.script.most_waiting = 3;
  ApiServer server(setup);
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  server.generator().halt(Halt::kQueued);
  std::vector<std::unique_ptr<OpenRequest>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(std::make_unique<OpenRequest>(server, kCompletions,
                                                 Json{{"prompt", "x"}, {"stream", i == 0}}));
  }
  ASSERT_TRUE(holds_soon([&] { return server.generator().in(Halt::kQueued) == 3; }));
  for (const bool stream : {true, false}) {
    const http::TestResponse refused =
        server.post(kCompletions, Json{{"prompt", "x"}, {"stream", stream}}.dump());
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.field("Retry-After"), "1");
    const Json error = Json::parse(refused.body)["error"];
    EXPECT_EQ(error["type"], "rate_limit_error");
    EXPECT_EQ(error["code"], "queue_full");
  }
  EXPECT_EQ(server.api().open(), 3);
  server.generator().halt(Halt::kNowhere);
  for (const auto& request : open) {
    EXPECT_NE(request->to_end().find(alphabet(1)), std::string::npos);
  }
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x"})").status, 200);
}

// A request of several prompts is taken whole or not at all.
TEST(ApiLoadTest, AQueueThatHasRoomForSomePromptsTakesNone) {
  ApiSetup setup;
  setup.script.most_waiting = 3;
  ApiServer server(setup);
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  server.generator().halt(Halt::kQueued);
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":["a","b","c","d"]})").status, 429);
  EXPECT_TRUE(holds_soon([&] { return server.generator().in(Halt::kQueued) == 0; }));
  EXPECT_TRUE(holds_soon([&] { return server.api().open() == 0; }));
}

TEST(ApiLoadTest, WhoNeverFinishesARequestHoldsUpNobody) {
  ApiServer server;
  const int idlers = tessera::testing::tries_all() ? 500 : 100;
  std::vector<std::unique_ptr<http::TestClient>> slow;
  for (int i = 0; i < idlers; ++i) {
    slow.push_back(std::make_unique<http::TestClient>(server.port()));
    const std::string request = server.request(kCompletions, R"({"prompt":"x"})");
    // Some in their head, some in their body.
    slow.back()->send(request.substr(0, i % 2 == 0 ? 20 : request.size() - 3));
  }
  ASSERT_TRUE(holds_soon([&] { return server.server().connections() == idlers; }));
  for (int i = 0; i < 30; ++i) {
    for (const auto& one : slow) one->send("");
    EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x"})").status, 200);
  }
  EXPECT_EQ(server.generator().asked().size(), 30);
}

TEST(ApiLoadTest, WhoTakesTooLongToAskIsLetGo) {
  ApiSetup setup;
  setup.change = [](http::ServerOptions& options) {
    options.read_timeout = std::chrono::milliseconds(150);
  };
  ApiServer server(setup);
  http::TestClient in_head(server.port()), in_body(server.port());
  const std::string request = server.request(kCompletions, R"({"prompt":"x"})");
  in_head.send(request.substr(0, 30));
  in_body.send(request.substr(0, request.size() - 2));
  in_head.read_to_end();
  in_body.read_to_end();
  EXPECT_TRUE(in_head.ended() && in_body.ended());
  EXPECT_TRUE(server.generator().asked().empty());
}

TEST(ApiLoadTest, MoreConnectionsThanItHasRoomForAreToldSo) {
  ApiSetup setup;
  setup.change = [](http::ServerOptions& options) { options.most_connections = 5; };
  ApiServer server(setup);
  std::vector<std::unique_ptr<http::TestClient>> idle;
  for (int i = 0; i < 5; ++i) idle.push_back(std::make_unique<http::TestClient>(server.port()));
  ASSERT_TRUE(holds_soon([&] { return server.server().connections() == 5; }));
  const http::TestResponse refused = server.get("/health/live");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(Json::parse(refused.body)["error"]["type"], "service_unavailable_error");
  idle.clear();
  EXPECT_TRUE(holds_soon([&] { return server.get("/health/live").status == 200; }));
}

TEST(ApiLoadTest, ADeadlineEndsARequestWithItsName) {
  ApiServer server;
  server.generator().halt(Halt::kDecode);
  const http::TestResponse whole = server.post(kCompletions, R"({"prompt":"x","timeout":0.05})");
  EXPECT_EQ(whole.status, 504);
  EXPECT_EQ(Json::parse(whole.body)["error"]["type"], "timeout_error");
  const http::TestResponse stream =
      server.post(kCompletions, R"({"prompt":"x","timeout":0.05,"stream":true})");
  EXPECT_EQ(stream.status, 200);  // it had begun
  const auto events = testing::events_of(stream.body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(Json::parse(events.back())["error"]["code"], "timeout");
  EXPECT_EQ(stream.body.find("[DONE]"), std::string::npos);
}

TEST(ApiLoadTest, TheServersOwnLimitHoldsForThoseWhoNameNone) {
  ApiSetup setup;
  setup.longest = std::chrono::milliseconds(50);
  ApiServer server(setup);
  server.generator().halt(Halt::kQueued);
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x"})").status, 504);
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x","timeout":3600})").status, 504);
}

TEST(ApiLoadTest, AnEngineThatDiesTellsEveryClient) {
  ApiServer server;
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  server.generator().halt(Halt::kDecode);
  OpenRequest stream(server, kChat,
                     {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"stream", true}});
  OpenRequest whole(server, kCompletions, {{"prompt", "x"}});
  ASSERT_TRUE(stream.saw("\"content\":\"a\""));
  ASSERT_TRUE(holds_soon([&] { return server.generator().in(Halt::kDecode) == 2; }));
  server.generator().die("rank 1 was killed by SIGKILL");
  const std::string told = stream.to_end();
  EXPECT_NE(told.find("rank 1 was killed"), std::string::npos) << told;
  EXPECT_EQ(told.find("[DONE]"), std::string::npos);
  const http::TestResponse answer = http::parse_response(whole.to_end());
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("rank 1 was killed"), std::string::npos);
  const http::TestResponse ready = server.get("/health/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_NE(ready.body.find("rank 1 was killed"), std::string::npos);
  EXPECT_EQ(server.get("/health/live").status, 200);
  const http::TestResponse refused = server.post(kCompletions, R"({"prompt":"x"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(Json::parse(refused.body)["error"]["code"], "engine_dead");
}

TEST(ApiLoadTest, DrainingFinishesWhatIsBegunAndTakesNothingNew) {
  ApiServer server;
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  server.generator().halt(Halt::kDecode);
  std::vector<std::unique_ptr<OpenRequest>> open;
  for (int i = 0; i < 6; ++i) {
    open.push_back(std::make_unique<OpenRequest>(
        server, kCompletions, Json{{"prompt", "x"}, {"max_tokens", 40}, {"stream", i % 2 == 0}}));
  }
  ASSERT_TRUE(holds_soon([&] { return server.generator().in(Halt::kDecode) == 6; }));
  server.api().begin_drain();
  EXPECT_EQ(server.get("/health/ready").status, 503);
  EXPECT_EQ(server.get("/health/live").status, 200);
  const http::TestResponse refused = server.post(kCompletions, R"({"prompt":"x"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(Json::parse(refused.body)["error"]["code"], "shutting_down");
  EXPECT_FALSE(server.api().wait_until_answered(std::chrono::milliseconds(20)));
  server.generator().halt(Halt::kNowhere);
  std::atomic<bool> answered{false};
  std::thread waiter(
      [&] { answered = server.api().wait_until_answered(std::chrono::milliseconds(20'000)); });
  for (size_t i = 0; i < open.size(); ++i) {
    const std::string all = open[i]->to_end();
    if (i % 2 == 0) {
      EXPECT_EQ(text_of_stream(http::parse_response(all).body), alphabet(40));
    } else {
      EXPECT_NE(all.find(alphabet(40)), std::string::npos) << all;
    }
  }
  waiter.join();
  EXPECT_TRUE(answered);
}

// What is not done in time is told so, and is no answer that looks whole.
TEST(ApiLoadTest, WhatTheServersEndCutsOffIsToldSo) {
  ApiServer server;
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  server.generator().halt(Halt::kDecode);
  OpenRequest stream(server, kCompletions, {{"prompt", "x"}, {"n", 2}, {"stream", true}});
  OpenRequest whole(server, kCompletions, {{"prompt", "x"}});
  ASSERT_TRUE(holds_soon([&] { return server.generator().in(Halt::kDecode) == 2; }));
  server.api().begin_drain();
  server.api().end_all();
  const auto events = testing::events_of(http::parse_response(stream.to_end()).body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(Json::parse(events.back())["error"]["code"], "shutting_down");
  EXPECT_EQ(http::parse_response(whole.to_end()).status, 503);
  EXPECT_TRUE(server.api().wait_until_answered(http::kTestPatience));
  EXPECT_TRUE(holds_soon([&] { return server.generator().stats().pages_used == 0; }));
}

TEST(ApiLoadTest, ClientsThatComeAndGoLeaveTheCountsRight) {
  ApiServer server;
  const int rounds = tessera::testing::tries_all() ? 200 : 15;
  std::atomic<int> whole{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        const Json body = {{"prompt", "x"}, {"max_tokens", 60}, {"stream", (i + t) % 2 == 0}};
        OpenRequest request(server, kCompletions, body);
        if ((i + t) % 3 == 0) continue;  // leaves at once
        if (request.to_end().find("length") != std::string::npos) ++whole;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int stayed = 0;
  for (int t = 0; t < 6; ++t) {
    for (int i = 0; i < rounds; ++i) stayed += (i + t) % 3 == 0 ? 0 : 1;
  }
  EXPECT_EQ(whole, stayed);
  EXPECT_TRUE(holds_soon([&] { return server.api().open() == 0; }));
  EXPECT_TRUE(holds_soon([&] { return server.generator().stats().pages_used == 0; }));
}

}  // namespace
}  // namespace tessera::serve
