#include "http/access.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::http {
namespace {

constexpr uint16_t kPort = 8123;
const std::string kToken = "0123456789abcdef";

Request asking(const std::string& host) {
  Request request;
  request.method = "GET";
  request.port = kPort;
  request.fields = {{"host", host}};
  return request;
}

TEST(HostTest, LoopbackNamesWithThePort) {
  for (const char* host :
       {"localhost:8123", "LocalHost:8123", "127.0.0.1:8123", "127.1.2.3:8123", "[::1]:8123"}) {
    EXPECT_TRUE(is_loopback_host(host, kPort)) << host;
  }
  EXPECT_TRUE(is_loopback_host("localhost", 80));
}

TEST(HostTest, RefusesEveryOtherName) {
  for (const char* host : {"",
                           "localhost",
                           "localhost:",
                           "localhost:80",
                           "localhost:8123x",
                           "localhost:08123",
                           "evil.com:8123",
                           "localhost.evil.com:8123",
                           "127.0.0.1.evil.com:8123",
                           "evil.com",
                           "128.0.0.1:8123",
                           "127.0.0.256:8123",
                           "127.0.0:8123",
                           "127.0.0.1.1:8123",
                           "0x7f.0.0.1:8123",
                           "2130706433:8123",
                           "[::2]:8123",
                           "[::1:8123",
                           "[::1]8123",
                           "user@localhost:8123",
                           "localhost:8123, evil.com",
                           " localhost:8123",
                           "127.0.0.1\x00:8123"}) {
    EXPECT_FALSE(is_loopback_host(host, kPort)) << host;
  }
}

TEST(AccessTest, AForeignHostIsToldThePlace) {
  EXPECT_FALSE(refusal_of(asking("localhost:8123"), {}).has_value());
  const auto refused = refusal_of(asking("evil.com"), {});
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 421);
  EXPECT_NE(refused->body.find("localhost:8123"), std::string::npos);
}

TEST(AccessTest, OneHostIsNeeded) {
  Request none = asking("");
  none.fields.clear();
  EXPECT_EQ(refusal_of(none, {})->status, 400);
  Request two = asking("localhost:8123");
  two.fields.emplace_back("host", "evil.com");
  EXPECT_EQ(refusal_of(two, {})->status, 400);
}

TEST(AccessTest, ATokenComesByLinkCookieOrField) {
  const AccessRules rules{.loopback_only = false, .token = kToken, .cookie_name = "studio"};
  Request request = asking("host.example");
  EXPECT_EQ(refusal_of(request, rules)->status, 401);

  Request first = request;
  first.query["token"] = kToken;
  const auto redirected = refusal_of(first, rules);
  ASSERT_TRUE(redirected.has_value());
  EXPECT_EQ(redirected->status, 303);
  EXPECT_EQ(redirected->fields.back().second,
            "studio_8123=" + kToken + "; Path=/; HttpOnly; SameSite=Lax");
  first.segments = {"api", "runs"};  // nothing to clean there
  EXPECT_FALSE(refusal_of(first, rules).has_value());

  Request later = request;
  later.fields.emplace_back("cookie", "a=b; studio_8123=" + kToken);
  EXPECT_FALSE(refusal_of(later, rules).has_value());
  Request program = request;
  program.fields.emplace_back("authorization", "Bearer " + kToken);
  EXPECT_FALSE(refusal_of(program, rules).has_value());
}

TEST(AccessTest, AWrongTokenIsNone) {
  const AccessRules rules{.loopback_only = false, .token = kToken, .cookie_name = "studio"};
  const std::string wrong = "0123456789abcdeF";
  Request request = asking("host.example");
  request.query["token"] = wrong;
  request.fields.emplace_back("cookie", "studio_8123=" + wrong + "; studio_81234=" + kToken);
  request.fields.emplace_back("authorization", "Basic " + kToken);
  EXPECT_EQ(refusal_of(request, rules)->status, 401);
  EXPECT_FALSE(equal_in_constant_time(kToken, kToken.substr(1)));
  EXPECT_TRUE(equal_in_constant_time(kToken, kToken));
}

TEST(AccessTest, ATokenIsLongAndPlain) {
  require_usable_token(kToken);
  EXPECT_THROW(require_usable_token("short"), ConfigError);
  EXPECT_THROW(require_usable_token("0123456789 abcdef"), ConfigError);
  EXPECT_THROW(require_usable_token("0123456789abcdef;"), ConfigError);
  EXPECT_THROW(require_usable_token(std::string(257, 'a')), ConfigError);
}

}  // namespace
}  // namespace tessera::http
