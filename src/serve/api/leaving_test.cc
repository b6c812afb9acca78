// Clients that leave, or stop reading, at every moment of their request: the generator hears of it
// and nothing of it stays, whatever else is under way.
#include <gtest/gtest.h>

#include <memory>
#include <string>
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

Json body_of(bool stream, int max_tokens = 900) {
  return {{"prompt", "some prompt of more than a page"},
          {"max_tokens", max_tokens},
          {"stream", stream}};
}

// Nothing of any request is left.
void expect_nothing_left(ApiServer& server) {
  EXPECT_TRUE(holds_soon([&] {
    const GeneratorStats stats = server.generator().stats();
    return stats.running == 0 && stats.waiting == 0 && stats.pages_used == 0;
  }));
  EXPECT_TRUE(holds_soon([&] { return server.api().open() == 0; }));
  EXPECT_TRUE(holds_soon([&] { return server.server().connections() == 0; }));
}

struct Moment {
  Halt part;
  bool stream;
};

class LeavingTest : public ::testing::TestWithParam<Moment> {};

TEST_P(LeavingTest, TheGeneratorHearsOfIt) {
  const auto [part, stream] = GetParam();
  ApiServer server;
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  server.generator().halt(part);
  const int times = tessera::testing::tries_all() ? 2000 : 200;
  int64_t files = 0, threads = 0, rss = 0;
  for (int i = 0; i < times; ++i) {
    if (i == times / 4) {  // what is made once is there
      ASSERT_TRUE(holds_soon([&] { return server.server().connections() == 0; }));
      files = testing::open_files();
      threads = testing::running_threads();
      rss = testing::rss_bytes();
    }
    auto request = std::make_unique<OpenRequest>(server, kCompletions, body_of(stream));
    ASSERT_TRUE(holds_soon([&] { return server.generator().in(part) == 1; }));
    ASSERT_TRUE(holds_soon([&] { return server.api().open() == 1; }));
    request.reset();
    ASSERT_TRUE(holds_soon([&] { return server.generator().in(part) == 0; }));
  }
  server.generator().halt(Halt::kNowhere);
  expect_nothing_left(server);
  EXPECT_EQ(testing::open_files(), files);
  EXPECT_EQ(testing::running_threads(), threads);
  if (!testing::has_sanitizer()) {
    EXPECT_LE(testing::rss_bytes(), rss + (4 << 20));
  }
  EXPECT_EQ(server.generator().stats().cancelled_total, times);
  const std::string metrics = server.get("/metrics").body;
  EXPECT_NE(metrics.find(fmt::format("status=\"499\"}} {}\n", times)), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    AtEveryMoment, LeavingTest,
    ::testing::Values(Moment{Halt::kQueued, true}, Moment{Halt::kQueued, false},
                      Moment{Halt::kPrefill, true}, Moment{Halt::kPrefill, false},
                      Moment{Halt::kDecode, true}, Moment{Halt::kDecode, false}));

TEST(ApiLeavingTest, OthersGoOn) {
  ApiSetup setup;
  setup.script.step = std::chrono::milliseconds(1);
  ApiServer server(setup);
  OpenRequest stays(server, kCompletions, body_of(true, 200));
  ASSERT_TRUE(stays.saw("\"text\""));
  for (int i = 0; i < 10; ++i) {
    OpenRequest leaves(server, kCompletions, body_of(i % 2 == 0));
    ASSERT_TRUE(holds_soon([&] { return server.generator().stats().running > 1; }));
  }
  const std::string answer = stays.to_end();
  EXPECT_EQ(testing::text_of_stream(http::parse_response(answer).body).size(), 200);
  EXPECT_NE(answer.find("[DONE]"), std::string::npos);
  expect_nothing_left(server);
}

TEST(ApiLeavingTest, AllPromptsOfARequestEndWithIt) {
  ApiServer server;
  server.generator().halt(Halt::kDecode);
  {
    OpenRequest request(server, kCompletions,
                        {{"prompt", {"a", "b", "c"}}, {"n", 4}, {"max_tokens", 500}});
    ASSERT_TRUE(holds_soon([&] { return server.generator().in(Halt::kDecode) == 3; }));
    EXPECT_EQ(server.generator().stats().running, 12);
  }
  expect_nothing_left(server);
}

// One that sends no more is taken to be gone, as by other servers.
TEST(ApiLeavingTest, AHalfClosedConnectionEndsItsRequest) {
  for (const bool stream : {true, false}) {
    ApiServer server;
    server.generator().halt(Halt::kDecode);
    OpenRequest request(server, kCompletions, body_of(stream));
    ASSERT_TRUE(holds_soon([&] { return server.generator().in(Halt::kDecode) == 1; }));
    request.client().end_sending();
    expect_nothing_left(server);
    request.to_end();
    EXPECT_TRUE(request.client().ended());
  }
}

TEST(ApiLeavingTest, WhoStopsReadingIsDropped) {
  ApiSetup setup;
  setup.script.max_context = 100'000;
  setup.script.step = std::chrono::milliseconds(1);
  setup.script.answer = [](const GenerationRequest&, int) {
    return std::vector<int32_t>(90'000, 'x');
  };
  setup.change = [](http::ServerOptions& options) {
    options.write_timeout = std::chrono::milliseconds(60'000);
  };
  ApiServer server(setup);
  // 128 events each step, for a reader who takes what fits into sockets.
  const Json prompts(8, "x");
  OpenRequest slow(server, kCompletions,
                   {{"prompt", prompts}, {"n", 16}, {"max_tokens", 90'000}, {"stream", true}},
                   /*receive_bytes=*/4096);
  ASSERT_TRUE(holds_soon([&] { return server.generator().stats().cancelled_total > 0; }));
  EXPECT_TRUE(holds_soon([&] { return server.generator().stats().pages_used == 0; }));
  EXPECT_NE(server.get("/metrics").body.find("slow_readers_dropped_total{model_name=\"toy\"} 1\n"),
            std::string::npos);
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x"})").status, 200);
  // It is told by an end without [DONE].
  EXPECT_EQ(slow.to_end().find("[DONE]"), std::string::npos);
  expect_nothing_left(server);
}

TEST(ApiLeavingTest, WhoReadsNothingAtAllIsDroppedInTime) {
  ApiSetup setup;
  setup.script.max_context = 200'000;
  setup.change = [](http::ServerOptions& options) {
    options.write_timeout = std::chrono::milliseconds(200);
  };
  setup.script.answer = [](const GenerationRequest&, int) {
    return std::vector<int32_t>(3000, 'x');  // less than the server holds, more than sockets do
  };
  ApiServer server(setup);
  OpenRequest slow(server, kChat,
                   {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"stream", true}},
                   /*receive_bytes=*/2048);
  expect_nothing_left(server);
}

TEST(ApiLeavingTest, TheServersEndEndsAllThatIsOpen) {
  auto server = std::make_unique<ApiServer>();
  server->generator().halt(Halt::kDecode);
  std::vector<std::unique_ptr<OpenRequest>> open;
  for (int i = 0; i < 20; ++i) {
    open.push_back(std::make_unique<OpenRequest>(*server, kCompletions, body_of(i % 2 == 0)));
  }
  ASSERT_TRUE(holds_soon([&] { return server->generator().in(Halt::kDecode) == 20; }));
  server.reset();
  for (const auto& request : open) {
    request->to_end();
    EXPECT_TRUE(request->client().ended());
  }
}

}  // namespace
}  // namespace tessera::serve
