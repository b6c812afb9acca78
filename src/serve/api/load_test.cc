// Many clients at once, a queue that is full, clients that never finish their request, deadlines,
// the end of the server.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/share.h"
#include "serve/testing/api_server.h"
#include "serve/testing/own_process.h"

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

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}
double p99_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[(times.size() * 99 - 1) / 100];
}

// The share counts all threads of this process, generator and clients included, over some seconds.
double share_of_core_when_idle() {
  const auto cpu_seconds = [] {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  };
  const double before = cpu_seconds();
  const Clock::time_point begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(tessera::testing::tries_all() ? 30 : 1));
  return 1000 * (cpu_seconds() - before) / ms_since(begin);
}

// Both ends of every connection are of this process.
void allow_connections(rlim_t connections) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t wanted = 2 * connections + 200;
  if (limit.rlim_cur >= wanted) return;
  ASSERT_GE(limit.rlim_max, wanted) << "raise it with 'ulimit -Hn'";
  limit.rlim_cur = wanted;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

std::string alphabet(int tokens) {
  std::string text;
  for (int i = 0; i < tokens; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

TEST(ApiLoadTest, ManyStreamsAtOnceAreAllWhole) {
  constexpr int clients = 1000;
  allow_connections(clients);
  ApiSetup setup;
  setup.script.most_running = clients + 1;  // the probe of readiness is one of them
  setup.script.most_waiting = clients;
  ApiServer server(setup);
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  server.generator().halt(Halt::kDecode);
  const int64_t rss_before = testing::rss_bytes();
  std::vector<std::unique_ptr<OpenRequest>> open;
  for (int i = 0; i < clients; ++i) {
    open.push_back(std::make_unique<OpenRequest>(
        server, kCompletions,
        Json{{"prompt", std::string(static_cast<size_t>(1 + i % 50), 'x')},
             {"max_tokens", 30},
             {"stream", true}}));
  }
  ASSERT_TRUE(holds_soon([&] { return server.generator().in(Halt::kDecode) >= clients; }));
  EXPECT_EQ(server.api().open(), clients);
  // Also what clients and the generator have of them: both are here.
  const int64_t bytes_each = (testing::rss_bytes() - rss_before) / clients;
  // A sanitizer keeps shadows and what was given back.
  if (!testing::has_sanitizer()) {
    EXPECT_LT(bytes_each, 64 << 10);
  }
  // Whoever asks how it is gets an answer beside them.
  EXPECT_EQ(server.get("/health/live").status, 200);
  EXPECT_EQ(server.get("/metrics").status, 200);
  std::vector<double> ready;
  for (int i = 0; i < 100; ++i) {
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(server.get("/health/ready").status, 200);
    ready.push_back(ms_since(begin));
  }
  fmt::print(
      "{} streams: {} bytes each; /health/ready p99 {:.1f} ms; {:.2f} % of a core while nothing "
      "comes\n",
      clients, bytes_each, p99_of(ready), 100 * share_of_core_when_idle());
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
    const Clock::time_point begin = Clock::now();
    const http::TestResponse refused =
        server.post(kCompletions, Json{{"prompt", "x"}, {"stream", stream}}.dump());
    fmt::print("a full queue: refused after {:.1f} ms\n", ms_since(begin));
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
  constexpr int idlers = 500, clients = 100;
  allow_connections(idlers);
  ApiServer server;
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  const auto p99_of_clients = [&] {
    std::vector<double> times;
    for (int i = 0; i < clients; ++i) {
      const Clock::time_point begin = Clock::now();
      EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x"})").status, 200);
      times.push_back(ms_since(begin));
    }
    return p99_of(times);
  };
  const double alone = p99_of_clients();
  ASSERT_TRUE(holds_soon([&] { return server.server().connections() == 0; }));
  std::vector<std::unique_ptr<http::TestClient>> slow;
  for (int i = 0; i < idlers; ++i) {
    slow.push_back(std::make_unique<http::TestClient>(server.port()));
    const std::string request = server.request(kCompletions, R"({"prompt":"x"})");
    // Some in their head, some in their body.
    slow.back()->send(request.substr(0, i % 2 == 0 ? 20 : request.size() - 3));
  }
  ASSERT_TRUE(holds_soon([&] { return server.server().connections() == idlers; }));
  std::atomic<bool> over{false};
  // They go on to say a byte now and then, which never is the last.
  std::thread dripping([&] {
    for (size_t i = 0; !over; i = (i + 2) % slow.size()) {
      slow[i]->send("x");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const double beside = p99_of_clients();
  over = true;
  dripping.join();
  EXPECT_EQ(server.server().connections(), idlers);
  EXPECT_EQ(server.generator().asked().size(), 2 * clients);
  fmt::print("p99 of {} clients: {:.1f} ms, beside {} idlers {:.1f} ms\n", clients, alone, idlers,
             beside);
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
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  std::vector<std::unique_ptr<http::TestClient>> idle;
  for (int i = 0; i < 5; ++i) idle.push_back(std::make_unique<http::TestClient>(server.port()));
  ASSERT_TRUE(holds_soon([&] { return server.server().connections() == 5; }));
  const http::TestResponse refused = server.post(kCompletions, R"({"prompt":"x"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(Json::parse(refused.body)["error"]["type"], "service_unavailable_error");
  // There is always room for those who ask how it is.
  for (int i = 0; i < 20; ++i) {
    for (const char* path : {"/health/live", "/health/ready", "/metrics"}) {
      EXPECT_EQ(server.get(path).status, 200) << path;
    }
  }
  idle.clear();
  EXPECT_TRUE(
      holds_soon([&] { return server.post(kCompletions, R"({"prompt":"x"})").status == 200; }));
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
