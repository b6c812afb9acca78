#include "http/message.h"

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/text/base64.h"
#include "http/content_policy.h"

namespace tessera::http {
namespace {

TEST(TargetTest, IsTakenApart) {
  const auto target = parse_target("/api/runs/a%20b/events?from=12&name=x+y%2B&flag#part");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->segments, (std::vector<std::string>{"api", "runs", "a b", "events"}));
  EXPECT_EQ(target->query, (Words{{"from", "12"}, {"name", "x y+"}, {"flag", ""}}));
  EXPECT_TRUE(parse_target("/")->segments.empty());
  EXPECT_EQ(parse_target("/api/")->segments, std::vector<std::string>{"api"});
  EXPECT_EQ(parse_target("/?a=1&a=2")->query.at("a"), "1");
}

TEST(TargetTest, RefusesWhatIsNoPathOfOurs) {
  for (const char* target :
       {"", "*", "api", "http://localhost/", "/..", "/api/../plan", "/api/%2e%2e/plan", "/./a",
        "/a%2fb", "/a%2", "/a%zz", "/a%00", "/a%0d%0ab", "/\x01", "/%ff", "/\xc3(", "/?x=%0a",
        "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17"}) {
    EXPECT_FALSE(parse_target(target).has_value()) << target;
  }
}

TEST(MessageTest, KnowsWhoTakesGzip) {
  const auto accepts = [](const std::string& value) {
    Request request;
    request.fields = {{"accept-encoding", value}};
    return accepts_gzip(request);
  };
  EXPECT_FALSE(accepts_gzip({}));
  for (const char* yes :
       {"gzip", "br, gzip", "gzip;q=0.5", "*", "*;q=0, gzip", "deflate,gzip;q=1"}) {
    EXPECT_TRUE(accepts(yes)) << yes;
  }
  for (const char* no : {"", "br", "gzip;q=0", "*;q=0", "gzip; q=0.0, *", "x-gzipped"}) {
    EXPECT_FALSE(accepts(no)) << no;
  }
}

TEST(MessageTest, NothingBreaksOutOfAField) {
  Response response = Response::json("{}");
  response.fields.emplace_back("X-Name", "a\r\nSet-Cookie: b=c");
  response.fields.emplace_back("X: Y", "1");
  response.fields.emplace_back("X-Good", "2");
  EXPECT_EQ(head_of(response, 2, true),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Good: 2\r\nContent-Length: "
            "2\r\nConnection: keep-alive\r\n\r\n");
}

TEST(EventTest, HasItsLines) {
  EXPECT_EQ(format_event("7", "", "{}"), "id: 7\ndata: {}\n\n");
  EXPECT_EQ(format_event("", "state", "a\nb\r\nc\rd"),
            "event: state\ndata: a\ndata: b\ndata: c\ndata: d\n\n");
}

TEST(EventQueueTest, EndsInsteadOfGrowing) {
  EventQueue queue(10);
  int woken = 0;
  queue.wake_with([&] { ++woken; });
  EXPECT_TRUE(queue.push("12345"));
  EXPECT_TRUE(queue.push("67890"));
  EXPECT_EQ(queue.next().text, "1234567890");
  EXPECT_TRUE(queue.push("1234567890"));
  EXPECT_FALSE(queue.push("1"));
  const EventPart part = queue.next();
  EXPECT_EQ(part.text, "");
  EXPECT_TRUE(part.ended);
  EXPECT_FALSE(queue.push(""));
  EXPECT_EQ(woken, 4);
}

TEST(Sha256Test, IsTheOneOfTheStandard) {
  const auto of = [](std::string_view text) { return base64(sha256(text)); };
  EXPECT_EQ(of(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  EXPECT_EQ(of("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  // 55, 56 and 64 bytes end a block before, at and behind the length.
  EXPECT_EQ(of(std::string(55, 'a')), "n0OQ+NMMLdkuyfCVtl4rmumwqSWlJY4kHJ8ekQ9zQxg=");
  EXPECT_EQ(of(std::string(56, 'a')), "s1Q5pKxvCUi21vnjxq8PX1kM4g8b3nCQ73lwaG7Gc4o=");
  EXPECT_EQ(of(std::string(64, 'a')), "/+BU/nrgy23GXDr5th1SCfQ5hR20PQulmXM33xVGaOs=");
  EXPECT_EQ(of(std::string(1000, 'a')), "Qe3s5C1j6Nm/UVqbppMuHCDLyfWl0TRkWttdsblzfqM=");
  EXPECT_EQ(base64(std::vector<uint8_t>{'a'}), "YQ==");
  EXPECT_EQ(base64(std::vector<uint8_t>{'a', 'b'}), "YWI=");
}

TEST(ContentPolicyTest, NamesEveryInlineScript) {
  const std::string policy = content_policy(
      "<script>abc</script><script src=x.js></script><script type=\"module\"></script >");
  EXPECT_NE(policy.find("'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='"),
            std::string::npos);
  EXPECT_NE(policy.find("'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"),
            std::string::npos);
  EXPECT_EQ(policy.find("script-src 'self' 'unsafe-inline'"), std::string::npos);
  EXPECT_NE(policy.find("frame-ancestors 'self'"), std::string::npos);
}

}  // namespace
}  // namespace tessera::http
