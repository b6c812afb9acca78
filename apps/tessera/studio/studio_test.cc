// `tessera studio`: what its server answers and refuses, over sockets, and what the command does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/testing/test_folder.h"
#include "cli/gzip.h"
#include "http/server.h"
#include "http/testing/client.h"
#include "in_process.h"
#include "studio/routes.h"
#include "studio/run_journal.h"
#include "studio/studio_command.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using http::fetch;
using http::TestResponse;
using nlohmann::json;

constexpr const char* kHtml =
    "<!doctype html><title>Tessera Studio</title><script>start()</script>";

class StudioTest : public ::testing::Test {
 protected:
  StudioTest() { fs::create_directories(folder_.path("runs")); }

  void make_run(const std::string& name, int steps) {
    fs::create_directories(folder_.path("runs/" + name));
    std::string text;
    for (int step = 1; step <= steps; ++step) {
      text +=
          fmt::format(R"({{"step":{},"time":{},"loss":{}}})", step, 1000 + step, 8.0 / step) + "\n";
    }
    folder_.write("runs/" + name + "/metrics.jsonl", text);
  }
  void start() {
    state_ =
        std::make_unique<StudioState>(RunTable({folder_.path("runs")}), StudioPage(gzip(kHtml)));
    http::ServerOptions options;
    options.fields = state_->page.security_fields();
    options.poll_interval = std::chrono::milliseconds(5);
    server_ = std::make_unique<http::Server>(options, studio_handler(*state_, {}));
  }
  TestResponse get(const std::string& target, const std::string& fields = "") {
    return fetch(server_->port(), target, fields);
  }
  json get_json(const std::string& target) { return json::parse(get(target).body); }

  testing::TestFolder folder_;
  std::unique_ptr<StudioState> state_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(StudioTest, ServesThePageCompressedAndNot) {
  start();
  const TestResponse plain = get("/");
  EXPECT_EQ(plain.body, kHtml);
  EXPECT_EQ(plain.field("Content-Encoding"), "");
  EXPECT_NE(
      plain.field("Content-Security-Policy").find("script-src 'self' 'wasm-unsafe-eval' 'sha256-"),
      std::string::npos);
  EXPECT_EQ(plain.field("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(plain.field("Access-Control-Allow-Origin"), "");
  const TestResponse packed = get("/", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(packed.field("Content-Encoding"), "gzip");
  EXPECT_EQ(gunzip(packed.body, 1000), kHtml);
  EXPECT_NE(packed.field("ETag"), plain.field("ETag"));
  const TestResponse again = get("/", "If-None-Match: " + plain.field("ETag") + "\r\n");
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
}

TEST_F(StudioTest, ListsRunsAndTheirFiles) {
  make_run("a", 3);
  folder_.write("runs/a/plan.json", R"({"kind":"plan","world":4,"peak_bytes":7})");
  folder_.write("runs/a/config.toml", "[model]\n");
  start();
  const json runs = get_json("/api/runs");
  EXPECT_EQ(runs.at("kind"), "runs");
  const json& run = runs.at("runs").at(0);
  EXPECT_EQ(run.at("id"), "a");
  EXPECT_EQ(run.at("last_step"), 3);
  EXPECT_EQ(run.at("state"), "running");  // it was written right now
  EXPECT_EQ(run.at("plan").at("world"), 4);
  EXPECT_EQ(run.at("has").at("summary"), false);
  EXPECT_EQ(get("/api/runs/a/plan").body, R"({"kind":"plan","world":4,"peak_bytes":7})");
  EXPECT_EQ(get("/api/runs/a/config").body, "[model]\n");
  EXPECT_TRUE(get("/api/runs/a/config").field("Content-Type").starts_with("text/plain"));
  EXPECT_EQ(get("/api/runs/a/summary").status, 404);
}

TEST_F(StudioTest, RefusesWhatIsNoneOfItsBusiness) {
  make_run("a", 3);
  folder_.write("secret", "secret");
  start();
  for (const char* target :
       {"/api/runs/b/plan", "/api/runs/../secret", "/api/runs/..%2f..%2fsecret/plan", "/secret",
        "/api/runs/a/metrics.jsonl", "/api/runs/a/../../secret", "//etc/passwd", "/etc/passwd",
        "/api/runs/%2e%2e/plan", "/api/runs/a%00/plan", "/api/runs/a/events/x"}) {
    const TestResponse response = get(target);
    EXPECT_TRUE(response.status == 404 || response.status == 400) << target << response.status;
    EXPECT_EQ(response.body.find("secret\""), std::string::npos);
  }
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE"}) {
    EXPECT_EQ(fetch(server_->port(), "/api/runs", "", method).status, 405) << method;
  }
  http::TestClient rebound(server_->port());
  rebound.send("GET /api/runs HTTP/1.1\r\nHost: evil.com\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(http::parse_response(rebound.read_to_end()).status, 421);
  EXPECT_EQ(get("/api/runs/a/events?from=x").status, 400);
  EXPECT_EQ(get("/api/runs/a/series?points=1").status, 400);
  EXPECT_EQ(get("/api/runs/a/series?from=-1").status, 400);
}

TEST_F(StudioTest, HostileNamesStayText) {
  const std::string hostile = "<script>alert(1)\"\x1b\xff";
  make_run(hostile, 1);
  start();
  const TestResponse response = get("/api/runs");
  EXPECT_EQ(response.field("Content-Type"), "application/json");
  const json run = json::parse(response.body).at("runs").at(0);
  EXPECT_EQ(run.at("name"), "<script>alert(1)\"\\u001b\\xff");
  EXPECT_EQ(get("/api/runs/" + run.at("id").get<std::string>() + "/series").status, 200);
}

TEST_F(StudioTest, ASeriesGoesOnInTheEvents) {
  make_run("a", 1000);
  start();
  const json series = get_json("/api/runs/a/series?points=100&keys=loss");
  EXPECT_EQ(series.at("complete"), true);
  EXPECT_EQ(series.at("last_step"), 1000);
  EXPECT_EQ(series.at("lines"), 1000);
  EXPECT_LE(series.at("step").size(), 100U);
  EXPECT_EQ(series.at("series").at("loss").at("high").at(0), 8.0);
  EXPECT_FALSE(series.at("series").contains("time"));
  std::ofstream(folder_.path("runs/a/metrics.jsonl"), std::ios::app)
      << "{\"step\":1001,\"loss\":\"NaN\"}\n";
  http::TestEvents events(server_->port(),
                          "/api/runs/a/events?from=" + series.at("next").get<std::string>());
  http::TestEvents::Event event;
  do {
    ASSERT_TRUE(events.next(event));
  } while (event.name == "state");
  EXPECT_EQ(event.data, "{\"step\":1001,\"loss\":\"NaN\"}");
  EXPECT_TRUE(event.id.starts_with("1001."));
  const json later = get_json("/api/runs/a/series?from=1001");
  EXPECT_EQ(later.at("series").at("loss").at("mean").at(0), nullptr);
  EXPECT_EQ(later.at("not_finite").at(0).at("value"), "NaN");
  EXPECT_EQ(later.at("last").at("loss"), "NaN");
}

TEST_F(StudioTest, AFileThatIsReplacedIsReadAgain) {
  make_run("a", 10);
  start();
  EXPECT_EQ(get_json("/api/runs/a/series").at("last_step"), 10);
  folder_.write("runs/a/metrics.jsonl", "{\"step\":5,\"loss\":1}\nforeign\n");
  const json series = get_json("/api/runs/a/series");
  EXPECT_EQ(series.at("first_step"), 5);
  EXPECT_EQ(series.at("lines"), 2);
  EXPECT_EQ(series.at("bad_lines"), 1);
}

// A run that went on from a checkpoint: its later lines were dropped, and others came.
TEST_F(StudioTest, AFileThatWasCutAndGrewHasEveryStepOnce) {
  make_run("a", 30);
  start();
  EXPECT_EQ(get_json("/api/runs/a/series").at("last_step"), 30);
  std::string text;
  for (int step = 1; step <= 60; ++step) {
    text += fmt::format(R"({{"step":{},"time":{},"loss":{}{}}})", step, 1000 + step, 8.0 / step,
                        step > 20 ? R"(,"generation":2)" : "") +
            "\n";
  }
  folder_.write("new", text);
  fs::rename(folder_.path("new"), folder_.path("runs/a/metrics.jsonl"));
  const json series = get_json("/api/runs/a/series");
  EXPECT_EQ(series.at("bad_lines"), 0);
  ASSERT_EQ(series.at("step").size(), 60U);
  for (int64_t i = 0; i < 60; ++i) EXPECT_EQ(series.at("step").at(static_cast<size_t>(i)), i + 1);
}

TEST_F(StudioTest, TellsWhatHappenedToARun) {
  make_run("a", 3);
  start();
  json journal = get_json("/api/runs/a/journal");
  EXPECT_EQ(journal.at("kind"), "journal");
  EXPECT_EQ(journal.at("complete"), true);
  EXPECT_TRUE(journal.at("events").empty());
  EXPECT_EQ(get_json("/api/runs").at("runs").at(0).at("has").at("journal"), false);
  folder_.write("runs/a/events.jsonl",
                R"({"event":"save","step":2,"rank":0,"seconds":0.5,"time":1002})"
                "\n[1]\n\n{\"event\":7}\nforeign\n"
                R"({"time":1003,"event":"<b>new kind</b>","rank":1})"
                "\n" +
                    std::string(100'000, '[') + "\n" + R"({"event":"half)");
  journal = get_json("/api/runs/a/journal");
  ASSERT_EQ(journal.at("events").size(), 2U);
  EXPECT_EQ(journal.at("events").at(0).at("seconds"), 0.5);
  EXPECT_EQ(journal.at("events").at(1).at("event"), "<b>new kind</b>");
  EXPECT_EQ(journal.at("bad_lines"), 4);
  start();  // what is known of runs is kept for a second
  EXPECT_EQ(get_json("/api/runs").at("runs").at(0).at("has").at("journal"), true);
}

TEST_F(StudioTest, OfALongJournalTheLastEventsAreTold) {
  make_run("a", 3);
  std::string text;
  for (int i = 0; i < 30'000; ++i) {
    text +=
        fmt::format(R"({{"event":"save","step":{},"path":"{}"}})", i, std::string(150, 'x')) + "\n";
  }
  folder_.write("runs/a/events.jsonl", text);
  start();
  const json journal = get_json("/api/runs/a/journal");
  EXPECT_EQ(journal.at("complete"), false);
  EXPECT_EQ(journal.at("bad_lines"), 0);
  ASSERT_EQ(journal.at("events").size(), kMostJournalEvents);
  EXPECT_EQ(journal.at("events").back().at("step"), 29'999);
  EXPECT_EQ(journal.at("events").front().at("step"), 28'000);
}

TEST_F(StudioTest, AJournalThatIsALinkIsNotFollowed) {
  make_run("a", 3);
  folder_.write("secret", R"({"event":"secret"})"
                          "\n");
  fs::create_symlink(folder_.path("secret"), folder_.path("runs/a/events.jsonl"));
  start();
  EXPECT_TRUE(get_json("/api/runs/a/journal").at("events").empty());
}

std::string refusal(const std::vector<std::string>& args) {
  const Ended ended = run_in_process(args);
  EXPECT_EQ(ended.code, 2) << ended.err;
  return ended.err;
}

TEST_F(StudioTest, RefusesToLetOthersInWithoutAToken) {
  EXPECT_NE(refusal({"studio", "--host", "0.0.0.0"}).find("give --token as well"),
            std::string::npos);
  EXPECT_NE(refusal({"studio", "--host", "0.0.0.0", "--token", "abc"}).find("has 3 characters"),
            std::string::npos);
  EXPECT_NE(refusal({"studio", "--port", "70000"}).find("ports end at 65535"), std::string::npos);
  EXPECT_NE(refusal({"studio", folder_.path("nowhere")}).find("is no folder"), std::string::npos);
  EXPECT_NE(refusal({"studio", "--host", "example.com", "--token", "0123456789abcdef"})
                .find("is no IP address"),
            std::string::npos);
}

TEST_F(StudioTest, TellsItsPagesFromOtherFiles) {
  EXPECT_TRUE(is_studio_page(kHtml));
  EXPECT_TRUE(is_studio_page(StudioPage("").html()));
  EXPECT_FALSE(is_studio_page("<!doctype html><title>Mine</title>"));
  if (embedded_studio_page().empty()) {
    const Ended ended = run_in_process({"studio", "--export", folder_.path("out")});
    EXPECT_EQ(ended.code, 1);
    EXPECT_NE(ended.err.find("built without web/studio.html.gz"), std::string::npos);
    return;
  }
  EXPECT_EQ(run_in_process({"studio", "--export", folder_.path("out")}).code, 0);
  EXPECT_EQ(run_in_process({"studio", "--export", folder_.path("out")}).code, 0);  // ours
  EXPECT_TRUE(is_studio_page(testing::read_file(folder_.path("out/studio.html"))));
  folder_.write("runs/studio.html", "mine");
  EXPECT_NE(refusal({"studio", "--export", folder_.path("runs")}).find("no page of Tessera's"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
