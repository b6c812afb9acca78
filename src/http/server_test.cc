// The server over real sockets of the loopback.
#include "http/server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "http/testing/client.h"

namespace tessera::http {
namespace {

using std::chrono::milliseconds;

bool wait_for(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kTestPatience;
  while (!holds() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  return holds();
}

Response echo(const Request& request) {
  return Response::text(200, "text/plain",
                        request.method + " " + request.path() + " " + request.body);
}

ServerOptions quick() {
  ServerOptions options;
  options.read_timeout = milliseconds(300);
  options.write_timeout = milliseconds(300);
  options.poll_interval = milliseconds(5);
  options.ping_interval = milliseconds(30);
  return options;
}

TEST(ServerTest, AnswersManyRequestsOnOneConnection) {
  const Server server({}, echo);
  TestClient client(server.port());
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(client.send(fmt::format("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", i)));
    const std::string wanted = fmt::format("GET /{} ", i);
    const std::string got =
        client.read_until([&](std::string_view t) { return t.ends_with(wanted); });
    EXPECT_TRUE(got.ends_with(wanted)) << got;
    EXPECT_NE(got.find("Connection: keep-alive"), std::string::npos);
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(ServerTest, AnswersRequestsThatComeTogetherInTheirOrder) {
  const Server server({}, echo);
  TestClient client(server.port());
  client.send(
      "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string got = client.read_to_end();
  EXPECT_LT(got.find("GET /a "), got.find("GET /b "));
  EXPECT_TRUE(got.ends_with("GET /b "));
}

TEST(ServerTest, AHeadHasTheLengthAndNoBody) {
  const Server server({}, echo);
  const TestResponse response = fetch(server.port(), "/abc", "", "HEAD");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.field("Content-Length"), "10");
  EXPECT_EQ(response.body, "");
}

TEST(ServerTest, EveryResponseHasTheServersFields) {
  ServerOptions options;
  options.fields = {{"X-Content-Type-Options", "nosniff"}};
  const Server server(options, echo);
  EXPECT_EQ(fetch(server.port(), "/").field("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(fetch(server.port(), "/%00").field("X-Content-Type-Options"), "nosniff");
}

TEST(ServerTest, TakesABodyAndSaysThatItMayCome) {
  const Server server({}, echo);
  TestClient client(server.port());
  client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until([](std::string_view t) { return t.ends_with("\r\n\r\n"); }),
            "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("body");
  EXPECT_TRUE(client.read_until([](std::string_view t) { return t.ends_with("POST /x body"); })
                  .ends_with("POST /x body"));
}

TEST(ServerTest, RefusesWhatIsTooLargeOrNoRequest) {
  ServerOptions options;
  options.header_bytes = 1000;
  options.body_bytes = 100;
  const Server server(options, echo);
  const auto status_of = [&](const std::string& bytes) {
    TestClient client(server.port());
    client.send(bytes);
    return parse_response(client.read_to_end()).status;
  };
  const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_EQ(status_of(get + "X: " + std::string(2000, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n"), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
                      fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", 200, std::string(200, 'x'))),
            413);
  for (const char* bad :
       {"hello\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02",
        "GET /a b HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET /.. HTTP/1.1\r\nConnection: close\r\n\r\n"}) {
    EXPECT_EQ(status_of(bad), 400) << bad;
  }
}

TEST(ServerTest, EndsAConnectionThatSaysTooLittle) {
  const Server server(quick(), echo);
  for (const char* start : {"", "GET / HT", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n12"}) {
    TestClient client(server.port());
    client.send(start);
    EXPECT_EQ(client.read_to_end(), "");
    EXPECT_TRUE(client.ended()) << start;
  }
  EXPECT_TRUE(wait_for([&] { return server.connections() == 0; }));
}

TEST(ServerTest, EndsAConnectionThatTakesNothing) {
  const std::string large(64 << 20, 'x');
  const Server server(quick(),
                      [&](const Request&) { return Response::text(200, "text/plain", large); });
  TestClient client(server.port(), 4096);
  client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(wait_for([&] { return server.connections() == 1; }));
  EXPECT_TRUE(wait_for([&] { return server.connections() == 0; }));
}

TEST(ServerTest, RefusesMoreConnectionsThanItKeeps) {
  ServerOptions options;
  options.most_connections = 2;
  const Server server(options, echo);
  TestClient a(server.port()), b(server.port());
  ASSERT_TRUE(wait_for([&] { return server.connections() == 2; }));
  TestClient c(server.port());
  EXPECT_EQ(
      parse_response(c.read_until([](std::string_view t) { return t.ends_with("}\n"); })).status,
      503);
  c.end_sending();
  EXPECT_TRUE(wait_for([&] { return server.connections() == 2; }));
}

bool is_urgent(const Request& request) {
  return request.segments == std::vector<std::string>{"urgent"};
}

TEST(ServerTest, SpareConnectionsAreForWhatIsAnsweredAtOnce) {
  ServerOptions options;
  options.most_connections = 2;
  options.spare_connections = 2;
  options.at_once = &is_urgent;
  const Server server(options, echo);
  TestClient a(server.port()), b(server.port());
  ASSERT_TRUE(wait_for([&] { return server.connections() == 2; }));
  for (int i = 0; i < 5; ++i) {
    const TestResponse urgent = fetch(server.port(), "/urgent");
    EXPECT_EQ(urgent.status, 200);
    EXPECT_EQ(urgent.field("Connection"), "close");
    EXPECT_EQ(fetch(server.port(), "/other").status, 503);
  }
  // One that sends a large body is told before it has: nothing is kept of it.
  TestClient large(server.port());
  large.send("POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(parse_response(large.read_until([](std::string_view t) {
              return t.ends_with("}\n");
            })).status,
            503);
  ASSERT_TRUE(a.send("GET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(parse_response(a.read_to_end()).status, 200);
}

// Nobody keeps a spare connection for long.
TEST(ServerTest, ASpareConnectionThatSaysNothingIsEnded) {
  ServerOptions options;
  options.most_connections = 1;
  options.spare_connections = 1;
  options.at_once = &is_urgent;
  const Server server(options, echo);
  TestClient a(server.port());
  ASSERT_TRUE(wait_for([&] { return server.connections() == 1; }));
  TestClient idle(server.port());
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(idle.ended());
  EXPECT_EQ(fetch(server.port(), "/urgent").status, 200);
}

TEST(ServerTest, NobodyWaitsForSlowHandlersAndNoStreamForAny) {
  std::atomic<bool> go_on{false};
  std::atomic<int> slow{0};
  const auto queue = std::make_shared<EventQueue>(1 << 20);
  ServerOptions options = quick();
  options.read_timeout = options.write_timeout = kTestPatience;
  options.is_slow = [](const Request& request) { return request.path() == "/slow"; };
  const Server server(options, [&](const Request& request) {
    if (request.path() == "/events") {
      Response response = Response::text(200, "text/event-stream", "");
      response.events = queue;
      return response;
    }
    if (request.path() != "/quick") {
      ++slow;
      EXPECT_TRUE(wait_for([&] { return go_on.load(); }));
    }
    return echo(request);
  });
  TestEvents reader(server.port(), "/events");
  queue->push(format_event("1", "", "x"));
  TestEvents::Event event;
  ASSERT_TRUE(reader.next(event));
  std::vector<std::unique_ptr<TestClient>> waiting;
  const auto ask = [&](const char* path) {
    waiting.push_back(std::make_unique<TestClient>(server.port()));
    waiting.back()->send(
        fmt::format("GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", path));
  };
  for (int i = 0; i < 5; ++i) ask("/slow");
  ASSERT_TRUE(wait_for([&] { return slow == 1; }));
  EXPECT_EQ(fetch(server.port(), "/quick").status, 200);
  // Also where all other handlers hang, streams go on.
  for (int i = 0; i < options.workers; ++i) ask("/blocks");
  ASSERT_TRUE(wait_for([&] { return slow == 1 + options.workers; }));
  for (int i = 2; i < 10; ++i) {
    queue->push(format_event(std::to_string(i), "", "x"));
    ASSERT_TRUE(reader.next(event));
    EXPECT_EQ(event.id, std::to_string(i));
  }
  go_on = true;
  for (const auto& one : waiting) EXPECT_EQ(parse_response(one->read_to_end()).status, 200);
}

TEST(ServerTest, SaysWhyItCannotListen) {
  const Server server({}, echo);
  ServerOptions same;
  same.port = server.port();
  try {
    const Server second(same, echo);
    FAIL() << "two servers on one port";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cannot listen on 127.0.0.1"), std::string::npos);
  }
  ServerOptions nowhere;
  nowhere.address = "example";
  EXPECT_THROW(Server(nowhere, echo), ConfigError);
}

// Counts, for as long as anybody reads.
class Counting : public EventSource {
 public:
  EventPart next() override {
    return {.text = format_event(std::to_string(++last_), "", std::string(1000, 'x'))};
  }

 private:
  int last_ = 0;
};

Response streaming(std::shared_ptr<EventSource> source) {
  Response response = Response::text(200, "text/event-stream", "");
  response.events = std::move(source);
  return response;
}

TEST(EventStreamTest, SendsWhatIsPushedAndPings) {
  const auto queue = std::make_shared<EventQueue>(1 << 20);
  const Server server(quick(), [&](const Request&) { return streaming(queue); });
  TestClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  client.read_until([](std::string_view t) { return t.ends_with("\r\n\r\n"); });
  ASSERT_TRUE(queue->push(format_event("1", "", "one")));
  EXPECT_EQ(client.read_until([](std::string_view t) { return t.ends_with("one\n\n"); }),
            "id: 1\ndata: one\n\n");
  EXPECT_TRUE(
      client.read_until([](std::string_view t) { return !t.empty(); }).starts_with(": ping\n\n"));
  queue->push(format_event("2", "", "two"));
  queue->close();
  EXPECT_NE(client.read_to_end().find("id: 2\ndata: two\n\n"), std::string::npos);
  EXPECT_TRUE(client.ended());
}

TEST(EventStreamTest, ASlowReaderIsDropped) {
  ServerOptions options = quick();
  options.event_buffer_bytes = 4096;
  const Server server(options,
                      [&](const Request&) { return streaming(std::make_shared<Counting>()); });
  TestClient slow(server.port(), 4096);
  slow.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  TestEvents quick_one(server.port(), "/");
  TestEvents::Event event;
  // The other one goes on meanwhile, and after.
  ASSERT_TRUE(wait_for([&] { return quick_one.next(event) && server.connections() == 1; }));
  const int before = std::stoi(event.id);
  for (int i = 1; i <= 100; ++i) {
    ASSERT_TRUE(quick_one.next(event));
    EXPECT_EQ(event.id, std::to_string(before + i));
  }
  slow.read_to_end();
  EXPECT_TRUE(slow.ended());
}

TEST(EventStreamTest, AQueueOfASlowReaderEndsInsteadOfGrowing) {
  ServerOptions options = quick();
  options.write_timeout = kTestPatience;
  options.event_buffer_bytes = 4096;
  const auto queue = std::make_shared<EventQueue>(64 << 10);
  const Server server(options, [&](const Request&) { return streaming(queue); });
  TestClient slow(server.port(), 4096);
  slow.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(wait_for([&] { return !queue->push(std::string(1000, 'x')); }));
}

TEST(EventStreamTest, AReaderThatLeavesIsNoticed) {
  const auto queue = std::make_shared<EventQueue>(1 << 20);
  const Server server(quick(), [&](const Request&) { return streaming(queue); });
  {
    TestEvents reader(server.port(), "/");
    ASSERT_TRUE(wait_for([&] { return server.connections() == 1; }));
    queue->push(format_event("", "", "x"));
    TestEvents::Event event;
    ASSERT_TRUE(reader.next(event));
  }
  EXPECT_TRUE(wait_for([&] { return server.connections() == 0; }));
  EXPECT_FALSE(queue->push("x"));
}

TEST(EventStreamTest, ManyReadersNeedNoThreadEach) {
  constexpr int kReaders = 64;
  std::atomic<int> most{0}, now{0};
  class Source : public EventSource {
   public:
    Source(std::atomic<int>& now, std::atomic<int>& most) : now_(now), most_(most) {}
    EventPart next() override {
      const int at_once = ++now_;
      if (at_once > most_.load()) most_ = at_once;
      --now_;
      return {.text = sent_++ < 20 ? format_event(std::to_string(sent_), "", "x") : ""};
    }

   private:
    std::atomic<int>&now_, &most_;
    int sent_ = 0;
  };
  const Server server(
      quick(), [&](const Request&) { return streaming(std::make_shared<Source>(now, most)); });
  std::vector<std::unique_ptr<TestEvents>> readers;
  for (int i = 0; i < kReaders; ++i)
    readers.push_back(std::make_unique<TestEvents>(server.port(), "/"));
  for (auto& reader : readers) {
    for (int i = 1; i <= 20; ++i) {
      TestEvents::Event event;
      ASSERT_TRUE(reader->next(event));
      EXPECT_EQ(event.id, std::to_string(i));
    }
  }
  EXPECT_EQ(server.connections(), kReaders);
  EXPECT_LE(most.load(), ServerOptions{}.workers);
  EXPECT_EQ(fetch(server.port(), "/", "", "HEAD").status, 200);
}

TEST(ServerTest, StopsWithStreamsOpenAndRequestsUnderWay) {
  const auto queue = std::make_shared<EventQueue>(1 << 20);
  std::atomic<bool> entered{false};
  auto server = std::make_unique<Server>(ServerOptions{}, [&](const Request& request) {
    if (request.path() == "/events") return streaming(queue);
    entered = true;
    std::this_thread::sleep_for(milliseconds(100));
    return echo(request);
  });
  TestEvents reader(server->port(), "/events");
  TestClient idle(server->port()), busy(server->port());
  busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(wait_for([&] { return entered.load(); }));
  server.reset();
  EXPECT_NE(busy.read_to_end().find("GET /slow"), std::string::npos);
  TestEvents::Event event;
  EXPECT_FALSE(reader.next(event));
  idle.read_to_end();
  EXPECT_TRUE(idle.ended() && reader.ended());
  EXPECT_FALSE(queue->push("x"));
}

}  // namespace
}  // namespace tessera::http
