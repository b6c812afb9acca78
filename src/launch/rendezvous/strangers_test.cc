// Everything that can come to the port of rank 0 instead of a rank.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "comm/communicator.h"
#include "launch/rendezvous/rendezvous_frame.h"
#include "launch/rendezvous/rendezvous_guest.h"
#include "launch/rendezvous/socket.h"
#include "launch/rendezvous/token.h"
#include "launch/testing/meeting.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What a stranger writes to rank 0.
class StrangerTest : public ::testing::Test {
 protected:
  StrangerTest()
      : port_(free_port()),
        meeting_(at_port(port_)),
        host_(meeting_.start(0, 2, {.timeout = kLong, .objection = objection})) {}

  static std::string objection(int, const std::string& payload) {
    return payload.starts_with("from ") ? "" : "that is no payload";
  }

  [[nodiscard]] UniqueFd connect() const {
    const auto deadline = Clock::now() + kLong;
    while (true) {
      try {
        return connect_to("127.0.0.1", port_, deadline);
      } catch (const Error&) {
        if (Clock::now() >= deadline) throw;
        std::this_thread::sleep_for(milliseconds(5));
      }
    }
  }
  // All that rank 0 answers, until it closes the connection.
  static std::string converse(const UniqueFd& fd, const std::string& text) {
    const auto deadline = Clock::now() + kLong;
    send_all(fd.get(), text, deadline);
    std::string answer;
    while (wait_ready(fd.get(), POLLIN, deadline)) {
      if (receive_some(fd.get(), answer) == Received::kClosed) return answer;
    }
    ADD_FAILURE() << "rank 0 keeps the connection";
    return answer;
  }
  // What rank 0 says to somebody with this token; empty: it is not refused.
  std::string refusal_of(const Hello& hello, const std::string& token = kToken) const {
    try {
      (void)introduce_soon(port_, hello, token);
      return "";
    } catch (const RefusedError& error) {
      return error.what();
    }
  }
  // Within 0.1 s, where the machine has time: in one of many tries.
  static void expect_at_once(const std::function<void()>& refused) {
    auto fastest = Clock::duration::max();
    for (int i = 0; i < 50 && fastest > milliseconds(100); ++i) {
      const auto begin = Clock::now();
      refused();
      fastest = std::min(fastest, Clock::now() - begin);
    }
    EXPECT_LE(fastest, milliseconds(100));
  }
  void expect_unharmed() {
    meeting_.start(1, 2);
    meeting_.join();
    EXPECT_EQ(host_.payloads, all_payloads(2)) << host_.error;
  }

  int port_;
  Meeting meeting_;
  const Outcome& host_;
};

TEST_F(StrangerTest, GarbageIsDropped) {
  EXPECT_EQ(converse(connect(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "");
  meeting_.notes.await("is not the beginning of a frame");
  expect_unharmed();
}

TEST_F(StrangerTest, AnOversizedFrameIsDropped) {
  std::string bytes = to_bytes(Frame{.kind = FrameKind::kHello, .body = ""});
  bytes[15] = '\x7f';  // a body of 2 GB
  EXPECT_EQ(converse(connect(), bytes), "");
  meeting_.notes.await("is longer than the");
  expect_unharmed();
}

TEST_F(StrangerTest, AWrongFrameIsDropped) {
  EXPECT_EQ(converse(connect(), to_bytes(FrameKind::kAccepted, "")), "");
  meeting_.notes.await("its first frame is no hello");
  EXPECT_EQ(converse(connect(), to_bytes(Frame{.kind = FrameKind::kHello, .body = "abc"})), "");
  meeting_.notes.await("a frame ends after 3 of 4 bytes");
  expect_unharmed();
}

// What a stranger brings is looked at before it gets the place of a rank.
TEST_F(StrangerTest, ABadPayloadTakesNobodysPlace) {
  const std::string answer = refusal_of({.nonce = "", .rank = 1, .size = 2, .payload = "x\ny"});
  EXPECT_TRUE(contains(answer, "that is no payload")) << answer;
  meeting_.notes.await("that is no payload");
  expect_unharmed();
}

TEST_F(StrangerTest, AnotherVersionIsRefusedInWords) {
  std::string answer =
      converse(connect(), to_bytes(Frame{.version = 7, .kind = FrameKind::kHello, .body = "?"}));
  const Refusal refusal = parse_refusal(take_frame(answer, 1000).value());
  EXPECT_TRUE(refusal.wrongly_started);
  EXPECT_TRUE(contains(refusal.reason, "it speaks version 7 of the rendezvous, rank 0 version 2"))
      << refusal.reason;
  meeting_.notes.await("it speaks version 7");
  expect_unharmed();
}

TEST_F(StrangerTest, ImpossibleRanksAreRefused) {
  for (const uint32_t rank : {0U, 2U, 0xffffffffU}) {
    EXPECT_NE(refusal_of({.nonce = "", .rank = rank, .size = 2, .payload = ""}), "") << rank;
  }
  expect_unharmed();
}

TEST_F(StrangerTest, AWrongTokenIsRefusedAtOnce) {
  (void)connect();  // rank 0 listens
  for (const std::string token : {"", "of-these-tests-", "Of-these-tests"}) {
    expect_at_once([&] {
      const std::string answer =
          refusal_of({.nonce = "", .rank = 1, .size = 2, .payload = "from 1"}, token);
      EXPECT_TRUE(contains(answer, "its token is not the one of rank 0")) << answer;
    });
  }
  expect_unharmed();
}

// What a rank said once, heard by somebody who says it again: rank 0 asks something else this time.
TEST_F(StrangerTest, AReplayedHelloIsRefusedAtOnce) {
  const Hello hello = {.nonce = "heard", .rank = 1, .size = 2, .payload = "from 1"};
  UniqueFd first = connect();
  send_all(first.get(), to_bytes(hello), Clock::now() + kLong);
  const std::string challenge = parse_text(next_frame(first));
  const std::string proof =
      to_bytes(FrameKind::kProof, proof_of("guest", hello, challenge, kToken));
  first.reset();  // said on this connection the proof would be taken, which would end the meeting
  expect_at_once([&] {
    std::string answer = converse(connect(), to_bytes(hello) + proof);
    EXPECT_EQ(take_frame(answer, 1000)->kind, FrameKind::kChallenge);
    const Refusal refusal = parse_refusal(take_frame(answer, 1000).value());
    EXPECT_TRUE(contains(refusal.reason, "its token is not the one of rank 0")) << refusal.reason;
    EXPECT_EQ(answer, "");
  });
  expect_unharmed();
}

// The first frame of a rank does not have the token in it, and rank 0 says nothing of the run to
// somebody who does not know it.
TEST_F(StrangerTest, WithoutTheTokenNothingIsSaidOfTheRun) {
  const Hello stranger = {.nonce = "n", .rank = 1, .size = 7, .payload = "from 1"};
  const std::string answer =
      converse(connect(), to_bytes(stranger) + to_bytes(FrameKind::kProof, std::string(32, 'x')));
  EXPECT_FALSE(contains(answer, "world has")) << answer;
  EXPECT_FALSE(contains(answer, kToken)) << answer;
  expect_unharmed();
}

TEST_F(StrangerTest, SilentOnesDoNotKeepTheRanksOut) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(connect());
  send_all(silent[99].get(), "TSR", Clock::now() + kLong);  // the beginning of something
  meeting_.notes.await("which said nothing while 64 others waited");
  expect_unharmed();
}

TEST_F(StrangerTest, ASlowOneIsDroppedInTheEnd) {
  const UniqueFd slow = connect();
  EXPECT_EQ(converse(slow, "TSRV"), "");
  meeting_.notes.await("did not say who it is within 3 s");
  expect_unharmed();
}

// A program that is no rendezvous answers the guest.
TEST(RendezvousTest, AGuestSurvivesAStrangeServer) {
  const Listener server = listen_on("127.0.0.1", 0);
  std::jthread stranger([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!wait_ready(server.fd.get(), POLLIN, Clock::now() + milliseconds(20))) continue;
      std::string from;
      const UniqueFd fd = accept_from(server.fd.get(), from);
      if (fd.valid()) send_all(fd.get(), "220 mail server ready\r\n", Clock::now() + kLong);
    }
  });
  Meeting meeting(at_port(server.port));
  const Outcome& guest = meeting.start(1, 2, {.timeout = kShort});
  meeting.join();
  EXPECT_TRUE(contains(guest.error, "did not find rank 0")) << guest.error;
  EXPECT_TRUE(contains(guest.error, "is no rendezvous: \"220 mail")) << guest.error;
}

// Somebody else has taken the port of rank 0 and accepts every rank.
TEST(RendezvousTest, AGuestDoesNotBelieveAHostThatDoesNotKnowTheToken) {
  const Listener listener = listen_on("127.0.0.1", 0);
  std::jthread rank_0([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!wait_ready(listener.fd.get(), POLLIN, Clock::now() + milliseconds(20))) continue;
      std::string from;
      const UniqueFd fd = accept_from(listener.fd.get(), from);
      try {
        act_as_rank_0(fd, "another");
      } catch (const Error&) {
        continue;  // the guest has given up
      }
    }
  });
  Meeting meeting(at_port(listener.port));
  const Outcome& guest = meeting.start(1, 2, {.timeout = kShort});
  meeting.join();
  EXPECT_TRUE(contains(guest.error, "does not know the token of the run")) << guest.error;
}

}  // namespace
}  // namespace tessera
