// Who may ask: keys, hosts, pages of other sites.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "serve/testing/api_server.h"

namespace tessera::serve {
namespace {

using testing::ApiServer;
using testing::ApiSetup;
using testing::Json;
using testing::kChat;
using testing::kCompletions;

constexpr const char* kKey = "0123456789abcdef0123456789abcdef";
const std::string kBearer = std::string("Authorization: Bearer ") + kKey + "\r\n";

ApiSetup with_key() {
  ApiSetup setup;
  setup.api_key = kKey;
  return setup;
}

int status_of(const ApiServer& server, const std::string& lines) {
  http::TestClient client(server.port());
  client.send("GET /v1/models HTTP/1.1\r\n" + lines + "Connection: close\r\n\r\n");
  return http::parse_response(client.read_to_end()).status;
}

TEST(ApiAccessTest, AllRoutesButOneWantTheKey) {
  ApiServer server(with_key());
  EXPECT_EQ(server.get("/health/live").status, 200);
  for (const char* path : {"/", "/v1/models", "/v1/models/toy", "/health/ready", "/metrics",
                           "/nowhere", "/favicon.ico", "/health/live/x"}) {
    const http::TestResponse response = server.get(path);
    EXPECT_EQ(response.status, 401) << path;
    EXPECT_EQ(response.field("WWW-Authenticate"), "Bearer") << path;
    const Json error = Json::parse(response.body)["error"];
    EXPECT_EQ(error["type"], "authentication_error") << path;
    EXPECT_EQ(error["code"], "invalid_api_key") << path;
    EXPECT_EQ(response.body.find(kKey), std::string::npos);
    EXPECT_NE(server.get(path, kBearer).status, 401) << path;
  }
  for (const char* path : {kCompletions, kChat}) {
    EXPECT_EQ(server.post(path, R"({"prompt":"x"})").status, 401) << path;
  }
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x"})", kBearer).status, 200);
  EXPECT_EQ(server.generator().asked().size(), 1);
}

TEST(ApiAccessTest, AWrongKeyIsRefusedHoweverItComes) {
  ApiServer server(with_key());
  for (const std::string& field :
       {std::string("Authorization: Bearer wrong\r\n"),
        std::string("Authorization: Bearer ") + kKey + "x\r\n",
        std::string("Authorization: Basic ") + kKey + "\r\n", std::string("Authorization: \r\n"),
        std::string("Authorization: ") + kKey + "\r\n",
        std::string("Cookie: tessera_serve=") + kKey + "\r\n",
        std::string("X-Api-Key: ") + kKey + "\r\n"}) {
    EXPECT_EQ(server.get("/v1/models", field).status, 401) << field;
  }
}

// How the page at / gets in: the link sets a cookie, and leads to the page without the key.
TEST(ApiAccessTest, TheLinkWithTheKeySetsACookie) {
  ApiServer server(with_key());
  const http::TestResponse first = server.get(std::string("/?token=") + kKey);
  EXPECT_EQ(first.status, 303);
  EXPECT_EQ(first.field("Location"), "./");  // also behind a proxy that adds a path
  const std::string cookie = first.field("Set-Cookie");
  EXPECT_NE(cookie.find("HttpOnly"), std::string::npos) << cookie;
  EXPECT_NE(cookie.find("SameSite=Lax"), std::string::npos) << cookie;
  const std::string pair = cookie.substr(0, cookie.find(';'));
  EXPECT_EQ(server.get("/", "Cookie: " + pair + "\r\n").status, 200);
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"x"})", "Cookie: " + pair + "\r\n").status, 200);
  EXPECT_EQ(server.get("/?token=wrong").status, 401);
}

TEST(ApiAccessTest, OnlyNamesOfTheLoopbackAreAnswered) {
  ApiServer server;
  const std::string port = std::to_string(server.port());
  for (const std::string& host : {"localhost:" + port, "127.0.0.1:" + port, "LOCALHOST:" + port}) {
    EXPECT_EQ(status_of(server, "Host: " + host + "\r\n"), 200) << host;
  }
  for (const std::string& host :
       {std::string("evil.com"), "evil.com:" + port, std::string("localhost"),
        std::string("localhost:1"), "localhost.evil.com:" + port}) {
    EXPECT_EQ(status_of(server, "Host: " + host + "\r\n"), 421) << host;
  }
  EXPECT_EQ(status_of(server, ""), 400);
  EXPECT_EQ(status_of(server, "Host: localhost:" + port + "\r\nHost: evil.com\r\n"), 400);

  ApiSetup open = with_key();
  open.loopback_only = false;
  ApiServer everywhere(open);
  EXPECT_EQ(status_of(everywhere, "Host: models.example.com\r\n" + kBearer), 200);
  EXPECT_EQ(status_of(everywhere, "Host: models.example.com\r\n"), 401);
}

TEST(ApiAccessTest, PagesOfOtherSitesMayNotAsk) {
  ApiServer server;
  const std::string body = R"({"prompt":"x"})";
  EXPECT_EQ(server.post(kCompletions, body, "Origin: http://evil.com\r\n").status, 403);
  EXPECT_EQ(server.post(kCompletions, body, "Origin: null\r\n").status, 403);
  EXPECT_EQ(
      server.post(kCompletions, body, fmt::format("Origin: http://localhost:{}\r\n", server.port()))
          .status,
      200);
  const http::TestResponse response = server.get("/v1/models");
  EXPECT_EQ(response.field("Access-Control-Allow-Origin"), "");
  EXPECT_NE(server.get("/").field("Content-Security-Policy"), "");
  EXPECT_EQ(server.generator().asked().size(), 1);
}

TEST(ApiAccessTest, WhatIsNoRouteSaysSo) {
  ApiServer server;
  EXPECT_EQ(server.get(kCompletions).status, 405);
  EXPECT_EQ(http::fetch(server.port(), "/v1/models", "", "DELETE").status, 405);
  EXPECT_EQ(server.get("/v1").status, 404);
  EXPECT_EQ(Json::parse(server.get("/v1").body)["error"]["type"], "not_found_error");
}

TEST(ApiAccessTest, AKeyThatAnybodyWouldGuessIsRefused) {
  testing::ScriptedGenerator generator({});
  for (const char* key : {"short", "has a blank in it and is long", "0123456789abcde\n"}) {
    ApiOptions options;
    options.model.words = words_of_bytes();
    options.api_key = key;
    EXPECT_THROW(ServeApi(generator, options), ConfigError) << key;
  }
}

}  // namespace
}  // namespace tessera::serve
