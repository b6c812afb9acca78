#include "launch/hosts/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "base/error.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct Ends {
  ControlLink host;
  ControlLink guest;
};

Ends connected() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    throw Error("socketpair");
  }
  return {{UniqueFd(ends[0]), "a guest", true}, {UniqueFd(ends[1]), "the host", false}};
}

// The host's part, with `token`; returns the greeting, or what went wrong.
std::string receive(ControlLink& link, const std::string& token, const std::string& refusal = "") {
  HostHandshake handshake(token);
  try {
    while (true) {
      const auto greeting = handshake.take(link, link.await(Clock::now() + 5s));
      if (!greeting) continue;
      if (!refusal.empty()) {
        refuse(link, refusal, false);
      } else {
        welcome(link, handshake, {.run = 3, .generation = 4, .body = "come in"});
      }
      return greeting->body;
    }
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(HandshakeTest, BothKnowEachOtherAndSealWhatTheySay) {
  Ends ends = connected();
  std::string greeting;
  std::thread host([&] { greeting = receive(ends.host, "secret"); });
  const ControlFrame welcome =
      introduce(ends.guest, "secret", {.body = "it is me"}, Clock::now() + 5s);
  host.join();
  EXPECT_EQ(greeting, "it is me");
  EXPECT_EQ(welcome.body, "come in");
  EXPECT_EQ(welcome.run, 3U);
  EXPECT_EQ(welcome.generation, 4U);
  ends.guest.send({.kind = ControlKind::kRenew, .body = std::string(100'000, 'x')});
  ControlFrame frame;
  std::thread reader([&] { frame = ends.host.await(Clock::now() + 5s); });
  while (ends.guest.has_output()) ends.guest.send_some();
  reader.join();
  EXPECT_EQ(frame.body.size(), 100'000U);
}

TEST(HandshakeTest, AGuestWithoutTheTokenIsToldSoAndNothingElse) {
  Ends ends = connected();
  std::string said;
  std::thread host([&] { said = receive(ends.host, "secret"); });
  try {
    (void)introduce(ends.guest, "guess", {.body = "it is me"}, Clock::now() + 5s);
    ADD_FAILURE() << "welcome";
  } catch (const LinkRefused& refused) {
    EXPECT_TRUE(refused.for_good());
    EXPECT_NE(std::string(refused.what()).find("TESSERA_RUN_TOKEN"), std::string::npos);
  }
  host.join();
  EXPECT_EQ(said, "it does not know the token of the run");
}

// It would believe whoever sits on the port.
TEST(HandshakeTest, AHostWithoutTheTokenIsNotBelieved) {
  Ends ends = connected();
  std::thread host([&] {
    (void)ends.host.await(Clock::now() + 5s);
    ends.host.send({.kind = ControlKind::kChallenge, .body = "x"});
    (void)ends.host.await(Clock::now() + 5s);
    ends.host.send({.kind = ControlKind::kWelcome, .body = std::string(40, '\0')});
  });
  EXPECT_THROW((void)introduce(ends.guest, "secret", {}, Clock::now() + 5s), Error);
  host.join();
}

TEST(HandshakeTest, ARefusalSaysWhyAndWhetherToTryAgain) {
  Ends ends = connected();
  std::thread host([&] { (void)receive(ends.host, "secret", "not now"); });
  try {
    (void)introduce(ends.guest, "secret", {}, Clock::now() + 5s);
    ADD_FAILURE() << "welcome";
  } catch (const LinkRefused& refused) {
    EXPECT_FALSE(refused.for_good());
    EXPECT_STREQ(refused.what(), "not now");
  }
  host.join();
}

TEST(HandshakeTest, WhoeverIsLongBeforeItIsKnownIsDropped) {
  Ends ends = connected();
  ends.guest.send({.body = std::string(kMaxGreetingBytes + 1, 'x')});
  EXPECT_THROW((void)ends.host.await(Clock::now() + 5s), Error);
  EXPECT_FALSE(ends.host.open());
}

}  // namespace
}  // namespace tessera
