// Whether it is ready, and what /metrics says.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/testing/api_server.h"
#include "serve/testing/fake_generator.h"

namespace tessera::serve {
namespace {

using testing::ApiServer;
using testing::ApiSetup;
using testing::Halt;
using testing::holds_soon;
using testing::Json;
using testing::kCompletions;

ApiSetup impatient() {
  ApiSetup setup;
  setup.readiness.every = std::chrono::milliseconds(30);
  setup.readiness.patience = std::chrono::milliseconds(200);
  return setup;
}

TEST(ApiHealthTest, ReadyMeansThatTheEngineHasAnswered) {
  ApiServer server(impatient());
  EXPECT_TRUE(holds_soon([&] { return server.get("/health/ready").status == 200; }));
  EXPECT_EQ(server.get("/health/ready").body, "{\"status\":\"ready\"}\n");
}

TEST(ApiHealthTest, AnEngineThatHangsIsNotReadyUntilItGoesOn) {
  ApiServer server(impatient());
  ASSERT_TRUE(holds_soon([&] { return server.get("/health/ready").status == 200; }));
  server.generator().freeze(true);
  ASSERT_TRUE(holds_soon([&] { return server.get("/health/ready").status == 503; }));
  const Json error = Json::parse(server.get("/health/ready").body)["error"];
  EXPECT_EQ(error["code"], "not_ready");
  EXPECT_NE(error["message"].get<std::string>().find("no progress"), std::string::npos);
  EXPECT_EQ(server.get("/health/live").status, 200);
  server.generator().freeze(false);
  EXPECT_TRUE(holds_soon([&] { return server.get("/health/ready").status == 200; }));
}

TEST(ApiHealthTest, AServerThatNeverAnsweredIsNotReady) {
  testing::ScriptedGenerator generator({});
  generator.freeze(true);
  ApiOptions options;
  options.model.words = words_of_bytes();
  const ServeApi api(generator, options);
  EXPECT_EQ(api.why_not_ready(), "the engine has not answered yet");
}

// Not one that is silent for long: it says itself that it is gone.
TEST(ApiHealthTest, AnEngineThatIsStartedAgainIsNotReadyAtOnce) {
  const auto state = std::make_shared<testing::FakeState>();
  testing::FakeGenerator generator(state);
  ApiOptions options;
  options.model.words = words_of_bytes();
  const ServeApi api(generator, options);
  ASSERT_TRUE(holds_soon([&] {
    state->step();  // answers the probe
    return api.why_not_ready().empty();
  }));
  state->look_dead(true);
  EXPECT_EQ(api.why_not_ready(), "the engine was lost and is being started again");
  state->look_dead(false);
  EXPECT_EQ(api.why_not_ready(), "");
}

// Work that goes on shows that it lives: nobody asks it in between.
TEST(ApiHealthTest, ABusyEngineIsNotAsked) {
  ApiSetup setup;
  setup.readiness.every = std::chrono::milliseconds(100);
  setup.script.step = std::chrono::milliseconds(10);
  ApiServer server(setup);
  ASSERT_TRUE(holds_soon([&] { return server.get("/health/ready").status == 200; }));
  const auto finished_before = server.generator().stats().finished_total;
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x","max_tokens":100})").status, 200);
  EXPECT_LE(server.generator().stats().finished_total, finished_before + 5);
}

// One frame of a large prompt may take longer than the patience: that its ranks come further is
// life enough.
TEST(ApiHealthTest, AnEngineInALongFrameIsReadyWhileItsRanksComeFurther) {
  const auto state = std::make_shared<testing::FakeState>();
  testing::FakeGenerator generator(state);
  ApiOptions options;
  options.model.words = words_of_bytes();
  options.readiness.every = std::chrono::milliseconds(20);
  options.readiness.patience = std::chrono::milliseconds(2'000);
  const ServeApi api(generator, options);
  ASSERT_TRUE(holds_soon([&] {
    state->step();  // answers the probe
    return api.why_not_ready().empty();
  }));
  const auto until = std::chrono::steady_clock::now() + 2 * options.readiness.patience;
  while (std::chrono::steady_clock::now() < until) {
    state->come_further();
    ASSERT_EQ(api.why_not_ready(), "");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(holds_soon([&] { return !api.why_not_ready().empty(); })) << "now they hang";
}

// Whoever asks whether it answers is not overtaken by those who ask for answers.
TEST(ApiHealthTest, NoClientGoesBeforeTheProbe) {
  const auto state = std::make_shared<testing::FakeState>();
  testing::FakeGenerator generator(state);
  ApiOptions options;
  options.model.words = words_of_bytes();
  options.model.vocab = 256;
  options.model.max_context = 1000;
  const ServeApi api(generator, options);
  ASSERT_TRUE(holds_soon([&] { return generator.stats().running == 1; }));
  const Asked first = read_completion(R"({"prompt":"x","priority":-1000})", options.model);
  EXPECT_GT(first.priority, state->taken().front().priority);
  EXPECT_THROW((void)read_completion(R"({"prompt":"x","priority":-1001})", options.model),
               ApiError);
}

// Requests that are read slowly, such as those with a large schema, hold up nobody who asks how it
// is.
TEST(ApiHealthTest, HealthWaitsForNoRequest) {
  std::atomic<int> compiling{0};
  std::atomic<bool> go_on{false};
  ApiSetup setup;
  setup.make_grammar = [&](const Json&) -> std::unique_ptr<TokenGrammar> {
    ++compiling;
    EXPECT_TRUE(holds_soon([&] { return go_on.load(); }));
    return nullptr;
  };
  ApiServer server(setup);
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  const int workers = server.api().server_options().workers;
  std::vector<std::unique_ptr<testing::OpenRequest>> slow;
  for (int i = 0; i < 3 * workers; ++i) {
    slow.push_back(std::make_unique<testing::OpenRequest>(
        server, kCompletions,
        Json{{"prompt", "x"}, {"response_format", {{"type", "json_object"}}}}));
  }
  ASSERT_TRUE(holds_soon([&] { return compiling == workers; }));
  for (const char* path : {"/health/live", "/health/ready", "/metrics"}) {
    EXPECT_EQ(server.get(path).status, 200) << path;
  }
  EXPECT_EQ(compiling, workers);
  go_on = true;
  for (const auto& one : slow) EXPECT_EQ(http::parse_response(one->to_end()).status, 200);
}

// Large schemas, which take long to be compiled, hold up neither streams nor those who ask for
// something else.
TEST(ApiHealthTest, NobodyWaitsForSchemasThatAreCompiled) {
  std::atomic<int> compiling{0};
  std::atomic<bool> go_on{false};
  ApiSetup setup;
  setup.make_grammar = [&](const Json&) -> std::unique_ptr<TokenGrammar> {
    ++compiling;
    EXPECT_TRUE(holds_soon([&] { return go_on.load(); }));
    return nullptr;
  };
  ApiServer server(setup);
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  server.generator().halt(Halt::kDecode);
  testing::OpenRequest stream(server, kCompletions,
                              {{"prompt", "x"}, {"max_tokens", 100}, {"stream", true}});
  ASSERT_TRUE(stream.saw("\"text\":\"a\""));
  const Json format = {{"type", "json_schema"},
                       {"json_schema", {{"name", "x"}, {"schema", {{"type", "object"}}}}}};
  std::vector<std::unique_ptr<testing::OpenRequest>> slow;
  for (int i = 0; i < 6; ++i) {
    slow.push_back(std::make_unique<testing::OpenRequest>(
        server, kCompletions, Json{{"prompt", "x"}, {"response_format", format}}));
  }
  ASSERT_TRUE(holds_soon([&] { return compiling > 0; }));
  server.generator().halt(Halt::kNowhere);
  EXPECT_TRUE(stream.saw("[DONE]"));
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x"})").status, 200);
  EXPECT_EQ(compiling, server.api().server_options().slow_workers);
  go_on = true;
  for (const auto& one : slow) EXPECT_EQ(http::parse_response(one->to_end()).status, 200);
}

struct Metric {
  std::string type;
  std::map<std::string, double> lines;  // by labels
};

std::map<std::string, Metric> parse_metrics(const std::string& text) {
  std::map<std::string, Metric> metrics;
  std::istringstream in(text);
  std::string line, name;
  while (std::getline(in, line)) {
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      std::istringstream words(line.substr(7));
      std::string type;
      words >> name >> type;
      EXPECT_FALSE(metrics.contains(name)) << name;
      metrics[name].type = type;
      continue;
    }
    EXPECT_TRUE(line.starts_with(name)) << line << " under " << name;
    const size_t blank = line.rfind(' ');
    metrics[name].lines[line.substr(name.size(), blank - name.size())] =
        std::stod(line.substr(blank + 1));
  }
  return metrics;
}

TEST(ApiHealthTest, MetricsHaveTheNamesThatDashboardsKnow) {
  ApiServer server;
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  const http::TestResponse response = server.get("/metrics");
  EXPECT_EQ(response.field("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  const auto metrics = parse_metrics(response.body);
  const std::map<std::string, std::string> wanted = {
      {"tessera_num_requests_running", "gauge"},
      {"tessera_num_requests_waiting", "gauge"},
      {"tessera_kv_cache_usage_perc", "gauge"},
      {"tessera_prompt_tokens_total", "counter"},
      {"tessera_generation_tokens_total", "counter"},
      {"tessera_num_preemptions_total", "counter"},
      {"tessera_prefix_cache_queries_total", "counter"},
      {"tessera_prefix_cache_hits_total", "counter"},
      {"tessera_recomputed_tokens_total", "counter"},
      {"tessera_time_to_first_token_seconds", "histogram"},
      {"tessera_inter_token_latency_seconds", "histogram"},
      {"tessera_time_per_output_token_seconds", "histogram"},
      {"tessera_e2e_request_latency_seconds", "histogram"},
      {"tessera_request_success_total", "counter"}};
  for (const auto& [name, type] : wanted) {
    ASSERT_TRUE(metrics.contains(name)) << name;
    EXPECT_EQ(metrics.at(name).type, type) << name;
  }
  EXPECT_EQ(metrics.at("tessera_ready").lines.at("{model_name=\"toy\"}"), 1);
}

TEST(ApiHealthTest, MetricsCountWhatWasAnswered) {
  ApiSetup setup;
  setup.readiness.every = std::chrono::milliseconds(60'000);  // one probe, and that is over
  ApiServer server(setup);
  ASSERT_TRUE(holds_soon([&] { return server.api().why_not_ready().empty(); }));
  const auto before = server.generator().stats();
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"xxxx","max_tokens":7,"n":2})").status, 200);
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"xx","max_tokens":30,"stop":"c"})").status, 200);
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":""})").status, 400);
  EXPECT_EQ(server.post("/v1/nothing", "{}").status, 404);
  ASSERT_TRUE(holds_soon([&] { return server.generator().stats().running == 0; }));
  // Whoever works for an answer lets go of it a moment after its client has it.
  ASSERT_TRUE(holds_soon([&] { return server.api().open() == 0; }));
  const auto metrics = parse_metrics(server.get("/metrics").body);
  const auto value = [&](const std::string& name, const std::string& more = "") {
    const Metric& metric = metrics.at("tessera_" + name);
    const auto at = metric.lines.find("{model_name=\"toy\"" + more + "}");
    return at == metric.lines.end() ? -1 : at->second;
  };
  const auto histogram = [&](const std::string& name, const std::string& part) {
    return metrics.at("tessera_" + name).lines.at(part);
  };
  EXPECT_EQ(value("request_success_total", ",finished_reason=\"length\""), 2);
  EXPECT_EQ(value("request_success_total", ",finished_reason=\"stop\""), 1);
  EXPECT_EQ(value("http_responses_total", ",status=\"400\""), 1);
  EXPECT_EQ(value("http_responses_total", ",status=\"404\""), 1);
  EXPECT_EQ(value("http_requests_open"), 0);
  EXPECT_EQ(value("prompt_tokens_total"), static_cast<double>(before.prompt_tokens_total) + 6);
  const std::string one = "{model_name=\"toy\"}";
  EXPECT_EQ(histogram("e2e_request_latency_seconds", "_count" + one), 2);
  EXPECT_EQ(histogram("request_generation_tokens", "_sum" + one), 14 + 3);
  EXPECT_EQ(histogram("request_prompt_tokens", "_sum" + one), 6);
  EXPECT_EQ(histogram("time_to_first_token_seconds", "_count" + one), 2);
  EXPECT_EQ(histogram("inter_token_latency_seconds", "_count" + one), 6 + 6 + 2);
  // The counts of a histogram only go up.
  double last = 0;
  for (const char* bound : {"1", "2", "5", "10", "20", "50", "+Inf"}) {
    const double count = histogram("request_generation_tokens",
                                   fmt::format("_bucket{{model_name=\"toy\",le=\"{}\"}}", bound));
    EXPECT_GE(count, last);
    last = count;
  }
  EXPECT_EQ(last, 2);
}

}  // namespace
}  // namespace tessera::serve
