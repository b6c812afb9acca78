#include "bench/bench_serve_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "bench/bench_serve_report.h"
#include "http/server.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

std::string chunk_of(const std::string& text) {
  return R"(data: {"choices":[{"index":0,"text":")" + text + "\"}]}\n\n";
}

// One part after another, as the server asks for them.
class ScriptedStream final : public http::EventSource {
 public:
  explicit ScriptedStream(std::vector<std::string> parts) : parts_(std::move(parts)) {}
  http::EventPart next() override {
    if (at_ == parts_.size()) return {.text = "", .ended = true};
    return {.text = parts_[at_++], .more = true};
  }

 private:
  std::vector<std::string> parts_;
  size_t at_ = 0;
};

// A server of OpenAI's API that says what the test wants.
class ScriptedServer {
 public:
  std::function<http::Response(int number, const nlohmann::json& body)> answer;

  ScriptedServer() {
    http::ServerOptions options;
    options.workers = 4;
    options.poll_interval = milliseconds(1);
    server_ = std::make_unique<http::Server>(
        options, [this](const http::Request& request) { return handle(request); });
  }

  [[nodiscard]] ClientOptions client() const {
    ClientOptions options;
    options.target = parse_target_url("http://127.0.0.1:" + std::to_string(server_->port()));
    options.timeout = milliseconds(20'000);
    return options;
  }
  [[nodiscard]] int asked() const { return asked_.load(); }
  [[nodiscard]] int most_at_once() const { return most_.load(); }
  std::string key;  // that was sent last

 private:
  http::Response handle(const http::Request& request) {
    const std::string* field = request.field("authorization");
    {
      const std::scoped_lock lock(mutex_);
      key = field == nullptr ? "" : *field;
    }
    if (request.path() == "/v1/models") {
      return http::Response::json(R"({"object":"list","data":[{"id":"scripted"}]})");
    }
    const int now = ++open_;
    for (int most = most_.load(); now > most && !most_.compare_exchange_weak(most, now);) {
    }
    http::Response response = answer(asked_++, nlohmann::json::parse(request.body));
    --open_;
    return response;
  }

  std::mutex mutex_;
  std::atomic<int> asked_{0}, open_{0}, most_{0};
  std::unique_ptr<http::Server> server_;
};

http::Response stream_of(std::vector<std::string> parts) {
  http::Response response;
  response.fields = {{"Content-Type", "text/event-stream"}};
  response.events = std::make_shared<ScriptedStream>(std::move(parts));
  return response;
}

// As many texts as are asked for.
http::Response whole_answer(const nlohmann::json& body) {
  std::vector<std::string> parts;
  const int64_t tokens = body.at("max_tokens");
  for (int64_t t = 0; t < tokens; ++t) parts.push_back(chunk_of("x"));
  parts.push_back(R"(data: {"choices":[],"usage":{"prompt_tokens":)" +
                  std::to_string(body.at("prompt").size()) + R"(,"completion_tokens":)" +
                  std::to_string(tokens) + "}}\n\ndata: [DONE]\n\n");
  return stream_of(std::move(parts));
}

LoadShape small_load() {
  LoadShape load;
  load.prompt_tokens = 12;
  load.answer_tokens = 5;
  load.spread = 0.4;
  load.model = "scripted";
  return load;
}

TEST(BenchServeClientTest, CountsWhatAClosedLoopGets) {
  ScriptedServer server;
  server.answer = [](int, const nlohmann::json& body) { return whole_answer(body); };
  ClientOptions options = server.client();
  options.requests = 25;
  options.concurrency = 3;
  options.api_key = "secret-of-sixteen-letters";
  LoadPlan plan(small_load());
  const ClientResult result = run_load(plan, options);
  ASSERT_EQ(result.samples.size(), 25U);
  EXPECT_EQ(server.asked(), 25);
  EXPECT_LE(server.most_at_once(), 3);
  EXPECT_EQ(server.key, "Bearer secret-of-sixteen-letters");
  LoadPlan again(small_load());
  std::multiset<std::pair<int64_t, int64_t>> expected, came;
  for (int i = 0; i < 25; ++i) {
    const PlannedRequest request = again.next();
    expected.emplace(request.prompt_tokens, request.answer_tokens);
  }
  for (const AnswerSample& sample : result.samples) {
    EXPECT_EQ(sample.failure, "");
    EXPECT_EQ(sample.texts, sample.answer_tokens);
    EXPECT_EQ(std::ssize(sample.gaps_s), sample.answer_tokens - 1);
    EXPECT_LE(sample.asked_s, sample.first_s);
    EXPECT_LE(sample.first_s, sample.last_s);
    EXPECT_LE(sample.last_s, sample.ended_s);
    EXPECT_LE(sample.ended_s, result.seconds);
    came.emplace(sample.prompt_tokens, sample.answer_tokens);
  }
  EXPECT_EQ(came, expected);
}

TEST(BenchServeClientTest, AnOpenLoopAsksWhenItIsTime) {
  ScriptedServer server;
  server.answer = [](int, const nlohmann::json& body) { return whole_answer(body); };
  ClientOptions options = server.client();
  options.requests = 30;
  options.concurrency = 64;
  LoadShape load = small_load();
  load.rate = 300;
  LoadPlan plan(load);
  const ClientResult result = run_load(plan, options);
  ASSERT_EQ(result.samples.size(), 30U);
  std::set<double> due, asked;
  LoadPlan again(load);
  for (int i = 0; i < 30; ++i) due.insert(again.next().at_s);
  for (const AnswerSample& sample : result.samples) {
    EXPECT_EQ(sample.failure, "");
    EXPECT_GE(sample.sent_s, sample.asked_s);
    asked.insert(sample.asked_s);
  }
  EXPECT_EQ(asked, due) << "times count from when a request was due";
}

TEST(BenchServeClientTest, WhatIsMoreThanMayBeOpenIsAFailure) {
  ScriptedServer server;
  server.answer = [](int, const nlohmann::json& body) { return whole_answer(body); };
  ClientOptions options = server.client();
  options.requests = 40;
  options.concurrency = 1;
  LoadShape load = small_load();
  load.rate = 1e9;  // all at once
  LoadPlan plan(load);
  const ClientResult result = run_load(plan, options);
  const auto failures = failures_of(result.samples);
  ASSERT_EQ(result.samples.size(), 40U);
  EXPECT_EQ(server.asked() + failures.at("more than --concurrency at once"), 40);
}

TEST(BenchServeClientTest, FailuresAreCountedByKind) {
  ScriptedServer server;
  server.answer = [](int number, const nlohmann::json& body) {
    switch (number % 5) {
      case 0:
        return http::Response::error(429, "queue_full", "the queue is full");
      case 1:
        return stream_of({chunk_of("x")});
      case 2:
        return stream_of({chunk_of("x"), "data: {\"error\":{\"message\":\"lost a rank\"}}\n\n"});
      case 3:
        return http::Response::json("{}");
      default:
        return whole_answer(body);
    }
  };
  ClientOptions options = server.client();
  options.requests = 20;
  LoadPlan plan(small_load());
  const ClientResult result = run_load(plan, options);
  const std::map<std::string, int64_t> expected = {
      {"error in the stream", 4}, {"status 429", 4}, {"stream broke off", 8}};
  EXPECT_EQ(failures_of(result.samples), expected);
  for (const AnswerSample& sample : result.samples) {
    const std::string expected_detail = sample.failure == "status 429" ? "the queue is full"
                                        : sample.failure == "error in the stream" ? "lost a rank"
                                                                                  : "";
    EXPECT_EQ(sample.detail, expected_detail);
  }
}

TEST(BenchServeClientTest, ASilentServerIsGivenUp) {
  ScriptedServer server;
  server.answer = [](int, const nlohmann::json&) {
    http::Response response;
    response.events = std::make_shared<http::EventQueue>(size_t{1} << 10);  // nothing ever comes
    return response;
  };
  ClientOptions options = server.client();
  options.requests = 2;
  options.concurrency = 2;
  options.timeout = milliseconds(50);
  LoadPlan plan(small_load());
  EXPECT_EQ(failures_of(run_load(plan, options).samples),
            (std::map<std::string, int64_t>{{"timeout", 2}}));
}

TEST(BenchServeClientTest, AnInterruptEndsTheLoadWithWhatItHas) {
  ScriptedServer server;
  server.answer = [](int, const nlohmann::json& body) { return whole_answer(body); };
  ClientOptions options = server.client();
  options.requests = 1'000'000;
  options.stopped = [&] { return server.asked() >= 3; };
  LoadPlan plan(small_load());
  const ClientResult result = run_load(plan, options);
  EXPECT_TRUE(result.interrupted);
  EXPECT_GE(result.samples.size(), 2U);
  EXPECT_LT(result.samples.size(), 1'000'000U);
}

TEST(BenchServeClientTest, AsksTheServerForItsModel) {
  ScriptedServer server;
  EXPECT_EQ(first_model(server.client()), "scripted");
  ClientOptions nobody = server.client();
  nobody.target.port = "1";
  EXPECT_NE(testing::message_of<Error>([&] { first_model(nobody); }).find("does not answer"),
            std::string::npos);
  LoadPlan plan(small_load());
  nobody.requests = 2;
  for (const auto& [kind, count] : failures_of(run_load(plan, nobody).samples)) {
    EXPECT_EQ(kind.rfind("connect", 0), 0U) << kind;
    EXPECT_EQ(count, 2);
  }
}

TEST(BenchServeClientTest, TargetsAreReadOrRefused) {
  const ServeTarget plain = parse_target_url("http://localhost");
  EXPECT_EQ(plain.host, "localhost");
  EXPECT_EQ(plain.port, "80");
  const ServeTarget full = parse_target_url("HTTP://127.0.0.1:8000/engine/v1/");
  EXPECT_EQ(full.authority(), "127.0.0.1:8000");
  EXPECT_EQ(full.prefix, "/engine");
  const ServeTarget v6 = parse_target_url("http://[::1]:9/");
  EXPECT_EQ(v6.host, "::1");
  EXPECT_EQ(v6.authority(), "[::1]:9");
  EXPECT_EQ(v6.prefix, "");
  for (const char* wrong : {"", "127.0.0.1:8000", "ftp://a", "http://", "http://:80", "http://a:b",
                            "http://a:123456", "http://a b", "http://a\r\nX: y"}) {
    EXPECT_NE(testing::message_of([&] { parse_target_url(wrong); }).find("--target"),
              std::string::npos)
        << wrong;
  }
  EXPECT_NE(testing::message_of([] { parse_target_url("https://a"); }).find("TLS"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
