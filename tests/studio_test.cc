// The studio's server beside a run: killed and started again, with many viewers.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "http/testing/client.h"
#include "support/command.h"
#include "support/processes.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests
using http::TestEvents;

class StudioServerTest : public CommandTest {
 protected:
  StudioServerTest() { std::filesystem::create_directories(folder_.path("runs/a")); }

  // Starts a server of what is in "runs", on the port of the one before, and waits until it
  // listens. The one before is killed.
  void serve() {
    server_.reset();
    const std::string output = "studio" + std::to_string(++servers_);
    CommandOptions options;
    options.output = output;
    server_ = std::make_unique<Command>(
        folder_, words_of("studio runs --port " + std::to_string(port_)), options);
    const std::string out = folder_.path(".stdout" + output);
    ASSERT_TRUE(wait_until([&] { return read_file(out).ends_with("/\n"); }))
        << read_file(folder_.path(".stderr" + output));
  }

  void append(const std::string& text) {
    std::ofstream(folder_.path("runs/a/metrics.jsonl"), std::ios::app | std::ios::binary) << text;
  }

  std::unique_ptr<Command> server_;
  int servers_ = 0;
  // Only for this process: while a server is dead, tests beside this one would take the usual port,
  // and the system a port of the range that it gives away.
  const uint16_t port_ = static_cast<uint16_t>(10'000 + ::getpid() % 20'000);
};

std::string line_of(int step) {
  return fmt::format(R"({{"step":{},"loss":{}}})", step, 8.0 / step);
}

// What EventSource does: comes back with the last id until it has seen `lines` lines.
std::vector<std::string> read_lines(uint16_t port, size_t lines) {
  std::vector<std::string> seen;
  std::string last_id;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (seen.size() < lines && std::chrono::steady_clock::now() < deadline) {
    TestEvents events(port, "/api/runs/a/events", last_id);
    TestEvents::Event event;
    while (seen.size() < lines && events.next(event)) {
      if (event.name.empty()) seen.push_back(event.data);
    }
    last_id = events.last_id();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return seen;
}

TEST_F(StudioServerTest, AKilledServerCostsNoLineAndDoublesNone) {
  constexpr int kLines = 400;
  append(line_of(1) + "\n");
  serve();
  std::vector<std::string> seen;
  std::thread reader([&] { seen = read_lines(port_, kLines); });
  for (int step = 2; step <= kLines; ++step) {
    const std::string line = line_of(step) + "\n";
    append(line.substr(0, 5));  // a reader may come between
    append(line.substr(5));
    if (step % 100 == 0) serve();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  reader.join();
  ASSERT_EQ(seen.size(), static_cast<size_t>(kLines));
  for (int step = 1; step <= kLines; ++step) {
    EXPECT_EQ(seen[static_cast<size_t>(step - 1)], line_of(step));
  }
}

TEST_F(StudioServerTest, ManyViewersSeeEveryLine) {
  constexpr size_t kViewers = 32;
  constexpr int kLines = 100;
  append(line_of(1) + "\n");
  serve();
  std::vector<std::unique_ptr<TestEvents>> viewers;
  for (size_t i = 0; i < kViewers; ++i) {
    viewers.push_back(std::make_unique<TestEvents>(port_, "/api/runs/a/events"));
  }
  for (int step = 2; step <= kLines; ++step) append(line_of(step) + "\n");
  for (auto& viewer : viewers) {
    for (int step = 1; step <= kLines;) {
      TestEvents::Event event;
      ASSERT_TRUE(viewer->next(event));
      if (!event.name.empty()) continue;
      EXPECT_EQ(event.data, line_of(step));
      ++step;
    }
  }
  const auto status = read_file(fmt::format("/proc/{}/status", server_->pid()));
  const size_t threads = status.find("Threads:");
  EXPECT_LE(std::stoi(status.substr(threads + 8)), 8) << "a thread for every viewer";
  EXPECT_EQ(http::fetch(port_, "/api/runs").status, 200);
}

TEST_F(StudioServerTest, ShowsARunWhileItTrains) {
  folder_.write("run.toml", tiny_run_file());
  serve();
  Command run(folder_,
              words_of("train run.toml --set logging.run_dir=runs/a --set train.steps=20"));
  ASSERT_TRUE(wait_until([&] {
    return http::fetch(port_, "/api/runs").body.find(R"("id":"a")") != std::string::npos;
  }));
  TestEvents events(port_, "/api/runs/a/events");
  std::string lines;
  std::vector<std::string> states;
  while (states.empty() || states.back() != "finished") {
    TestEvents::Event event;
    ASSERT_TRUE(events.next(event)) << lines;
    const auto data = nlohmann::json::parse(event.data);
    if (event.name == "state") states.push_back(data.at("state"));
    if (event.name.empty()) lines += event.data + "\n";
  }
  EXPECT_EQ(run.finish().code, 0);
  EXPECT_EQ(lines, read_file(folder_.path("runs/a/metrics.jsonl")));
  const auto last = nlohmann::json::parse(http::fetch(port_, "/api/runs/a/series").body).at("last");
  EXPECT_EQ(last.at("step"), 20);
  EXPECT_EQ(last.at("memory_bytes").size(), 4U);
  const auto plan = nlohmann::json::parse(http::fetch(port_, "/api/runs/a/plan").body);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(last.at("memory_bytes").at(rank),
              plan.at("ranks").at(rank).at("memory_bytes").at("total"));
  }
  double phases = 0;
  for (const auto& [phase, milliseconds] : last.at("phase_ms").items()) {
    EXPECT_GE(milliseconds, 0) << phase;
    phases += milliseconds.get<double>();
  }
  EXPECT_GT(last.at("phase_ms").at("forward"), 0);
  EXPECT_LE(phases, last.at("step_ms"));  // they are parts of it
  server_->signal(SIGINT);
  EXPECT_EQ(server_->finish().code, 130);
}

}  // namespace
}  // namespace tessera
