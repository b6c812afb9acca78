// Requests that are damaged at random never crash the server, never make it answer something that
// is no response, and leave it in order. Under the sanitizers this is the test of the parser.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "http/access.h"
#include "http/server.h"
#include "http/testing/client.h"
#include "http/testing/response_row.h"

namespace tessera::http {
namespace {

using std::chrono::milliseconds;

class Damage {
 public:
  explicit Damage(uint32_t seed) : dice_(seed) {}

  size_t below(size_t most) { return most == 0 ? 0 : dice_() % most; }

  std::string request() {
    static const std::vector<std::string> kSeeds = {
        "GET / HTTP/1.1\r\nHost: localhost:1\r\nAccept-Encoding: gzip\r\n\r\n",
        "GET /api/runs/a%20b/events?from=12.34.abcdef01&x=%C3%A9 HTTP/1.1\r\nHost: "
        "127.0.0.1:1\r\nLast-Event-ID: 7\r\nCookie: studio_1=0123456789abcdef; a=b\r\n\r\n",
        "HEAD /api/runs/x/plan HTTP/1.1\r\nHost: [::1]:1\r\nConnection: close\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
        "chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
        "GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\nUpgrade: websocket\r\n\r\n"};
    std::string text = kSeeds[below(kSeeds.size())];
    for (size_t i = below(6); i > 0; --i) change(text);
    return text;
  }

 private:
  void change(std::string& text) {
    static const std::vector<std::string> kWords = {"\r\n",
                                                    "\r\n\r\n",
                                                    "\n",
                                                    "\r",
                                                    ":",
                                                    " ",
                                                    "%",
                                                    "%00",
                                                    "%2e%2e",
                                                    "/../",
                                                    "?",
                                                    "&",
                                                    "=",
                                                    "\t",
                                                    "HTTP/1.1",
                                                    "Content-Length: 18446744073709551616\r\n",
                                                    "Content-Length: -1\r\n",
                                                    "Transfer-Encoding: chunked\r\n",
                                                    "Host: \r\n",
                                                    "ffffffffffffffff\r\n",
                                                    "\x80\xff"};
    const size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        text.insert(at, kWords[below(kWords.size())]);
        break;
      case 1:
        text.insert(at, 1, static_cast<char>(dice_() & 0xff));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 3:
        text.erase(at, 1 + below(8));
        break;
      case 4:
        text.insert(at, text.substr(below(text.size() + 1), below(40)));
        break;
      default:
        text.insert(at, below(40) == 0 ? 20'000 : below(200), static_cast<char>('0' + below(75)));
    }
  }

  std::mt19937 dice_;
};

Router answers() {
  Router router;
  router.get("/", [](const Request& request) {
    return Response::text(200, "text/plain", accepts_gzip(request) ? "gzip" : "plain");
  });
  router.get("/api/runs/{id}/events",
             [](const Request& request) { return Response::json(request.captured.at("id")); });
  router.add("POST", "/echo", [](const Request& request) {
    return Response::text(200, "text/plain", request.body);
  });
  return router;
}

TEST(FuzzTest, DamagedRequestsGetResponsesOrNothing) {
  // More rounds where somebody asks for them: TESSERA_FUZZ_ROUNDS=1000000.
  const char* asked = std::getenv("TESSERA_FUZZ_ROUNDS");
  const int rounds = asked != nullptr ? std::atoi(asked) : 1500;
  ServerOptions options;
  options.read_timeout = milliseconds(2000);
  options.header_bytes = 4096;
  options.body_bytes = 4096;
  const Router router = answers();
  const AccessRules rules{
      .loopback_only = false, .token = "0123456789abcdef", .cookie_name = "studio"};
  const Server server(options, [&](const Request& request) {
    AccessRules mine = rules;
    if (request.method == "POST") mine.token.clear();
    if (auto refusal = refusal_of(request, mine)) return *std::move(refusal);
    return router.route(request);
  });
  for (int round = 0; round < rounds; ++round) {
    Damage damage(static_cast<uint32_t>(round));
    const std::string bytes = damage.request();
    TestClient client(server.port());
    client.send(bytes);
    client.end_sending();
    const std::string got = client.read_to_end();
    ASSERT_TRUE(client.ended()) << "round " << round << " hangs: " << bytes;
    ASSERT_TRUE(is_row_of_responses(got)) << "round " << round << "\n" << bytes << "\n---\n" << got;
  }
  EXPECT_EQ(fetch(server.port(), "/", "Authorization: Bearer 0123456789abcdef\r\n").body, "plain");
}

}  // namespace
}  // namespace tessera::http
