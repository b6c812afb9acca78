// Ranks as threads that find each other, and everything that can come instead of a rank.
#include "launch/rendezvous/rendezvous.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "comm/communicator.h"
#include "launch/rendezvous/meeting_file.h"
#include "launch/rendezvous/private_folder.h"
#include "launch/rendezvous/rendezvous_frame.h"
#include "launch/rendezvous/rendezvous_guest.h"
#include "launch/rendezvous/socket.h"
#include "launch/rendezvous/token.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using testing::TestFolder;

constexpr milliseconds kLong{20'000};
constexpr milliseconds kShort{300};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int free_port() { return listen_on("127.0.0.1", 0).port; }

// How one rank fared: what it got, or what it threw.
struct Outcome {
  std::vector<std::string> payloads;
  std::string error;
  bool config_error = false;
};

// Notes of rank 0, from its thread.
class Notes {
 public:
  void add(const std::string& note) {
    const std::scoped_lock lock(mutex_);
    text_ += note + "\n";
  }
  [[nodiscard]] std::string text() {
    const std::scoped_lock lock(mutex_);
    return text_;
  }
  void await(const std::string& part) {
    const auto deadline = Clock::now() + kLong;
    while (!contains(text(), part)) {
      ASSERT_LT(Clock::now(), deadline) << part << " is not in: " << text();
      std::this_thread::sleep_for(milliseconds(2));
    }
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

// Ranks in threads, each with its own Rendezvous.
class Meeting {
 public:
  using Maker = std::function<std::unique_ptr<Rendezvous>(RendezvousOptions)>;
  explicit Meeting(Maker maker) : maker_(std::move(maker)) {}
  ~Meeting() {
    for (auto& [outcome, thread] : ranks_) thread.join();
  }

  // The payload is "from RANK".
  Outcome& start(int rank, int size, RendezvousOptions options = {.timeout = kLong}) {
    options.on_note = [this](const std::string& note) { notes.add(note); };
    auto outcome = std::make_unique<Outcome>();
    Outcome& result = *outcome;
    ranks_.emplace_back(std::move(outcome), std::thread([this, &result, rank, size, options] {
                          const auto rendezvous = maker_(options);
                          try {
                            result.payloads =
                                rendezvous->exchange(rank, size, fmt::format("from {}", rank));
                          } catch (const ConfigError& error) {
                            result.error = error.what();
                            result.config_error = true;
                          } catch (const Error& error) {
                            result.error = error.what();
                          }
                        }));
    return result;
  }
  void join() {
    for (auto& [outcome, thread] : ranks_) thread.join();
    ranks_.swap(done_);
    ranks_.clear();
  }
  Notes notes;

 private:
  Maker maker_;
  std::vector<std::pair<std::unique_ptr<Outcome>, std::thread>> ranks_;
  std::vector<std::pair<std::unique_ptr<Outcome>, std::thread>> done_;
};

constexpr const char* kToken = "of-these-tests";

Meeting::Maker at_port(int port) {
  return [port](RendezvousOptions options) {
    if (options.token.empty()) options.token = kToken;
    return rendezvous_at({.host = "127.0.0.1", .port = port}, std::move(options));
  };
}

Meeting::Maker through(const std::string& path) {
  return [path](RendezvousOptions options) {
    return rendezvous_through_file(path, std::move(options));
  };
}

std::vector<std::string> all_payloads(int size) {
  std::vector<std::string> payloads;
  for (int rank = 0; rank < size; ++rank) payloads.push_back(fmt::format("from {}", rank));
  return payloads;
}

// As soon as rank 0 listens.
Acceptance introduce_soon(int port, const Hello& hello, const std::string& token = kToken) {
  const auto deadline = Clock::now() + kLong;
  while (true) {
    try {
      return introduce("127.0.0.1", port, hello, token, deadline);
    } catch (const RefusedError&) {
      throw;
    } catch (const Error&) {
      if (Clock::now() >= deadline) throw;
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
}

Frame next_frame(const UniqueFd& fd) {
  std::string bytes;
  const auto deadline = Clock::now() + kLong;
  while (true) {
    if (std::optional<Frame> frame = take_frame(bytes, 1000)) return *frame;
    if (!wait_ready(fd.get(), POLLIN, deadline) ||
        receive_some(fd.get(), bytes) == Received::kClosed) {
      throw Error("the other side went away");
    }
  }
}

// Accepts whoever comes, as rank 0 of a run with this token would.
void act_as_rank_0(const UniqueFd& fd, const std::string& token) {
  const Hello hello = parse_hello(next_frame(fd));
  send_all(fd.get(), to_bytes(FrameKind::kChallenge, "challenge"), Clock::now() + kLong);
  (void)next_frame(fd);
  send_all(fd.get(), to_bytes(FrameKind::kAccepted, proof_of("host", hello, "challenge", token)),
           Clock::now() + kLong);
}

TEST(RendezvousTest, EverybodyGetsEverything) {
  for (const int size : {1, 2, 9}) {
    Meeting meeting(at_port(free_port()));
    std::vector<Outcome*> outcomes;
    for (int rank = size - 1; rank >= 0; --rank) outcomes.push_back(&meeting.start(rank, size));
    meeting.join();
    for (const Outcome* outcome : outcomes) {
      EXPECT_EQ(outcome->payloads, all_payloads(size)) << outcome->error;
    }
    EXPECT_EQ(meeting.notes.text(), "");
  }
}

TEST(RendezvousTest, WaitsForALateRank0) {
  Meeting meeting(at_port(free_port()));
  const Outcome& early = meeting.start(1, 2);
  std::this_thread::sleep_for(milliseconds(200));
  meeting.start(0, 2);
  meeting.join();
  EXPECT_EQ(early.payloads, all_payloads(2)) << early.error;
}

TEST(RendezvousTest, EveryRankLearnsWhoIsMissing) {
  Meeting meeting(at_port(free_port()));
  const Outcome& host = meeting.start(0, 6, {.timeout = milliseconds(500)});
  const Outcome& guest = meeting.start(2, 6, {.timeout = kLong});
  meeting.join();
  for (const Outcome* outcome : {&host, &guest}) {
    EXPECT_TRUE(contains(outcome->error, "ranks 1 and 3-5 of 6 did not come within 0.5 s"))
        << outcome->error;
    EXPECT_FALSE(outcome->config_error);
  }
}

TEST(RendezvousTest, AGuestNamesRank0ThatDidNotCome) {
  const int port = free_port();
  Meeting meeting(at_port(port));
  const Outcome& guest = meeting.start(1, 2, {.timeout = kShort});
  meeting.join();
  EXPECT_TRUE(
      contains(guest.error, fmt::format("rank 1 did not find rank 0 at 127.0.0.1:{} within 0.3 s: "
                                        "cannot connect",
                                        port)))
      << guest.error;
}

TEST(RendezvousTest, AGuestThatLeavesMayComeAgain) {
  const int port = free_port();
  Meeting meeting(at_port(port));
  const Outcome& host = meeting.start(0, 3);
  introduce_soon(port, {.nonce = "", .rank = 1, .size = 3, .payload = "other"});
  meeting.notes.await("rank 1 (127.0.0.1 port ");
  meeting.start(1, 3);
  meeting.start(2, 3);
  meeting.join();
  EXPECT_EQ(host.payloads, all_payloads(3)) << host.error;
}

struct RefusalCase {
  const char* name;
  int rank;
  int size;
  const char* token;
  const char* reason;
};
class RefusalTest : public ::testing::TestWithParam<RefusalCase> {};

// The refused one and rank 0 learn why, and the others meet all the same.
TEST_P(RefusalTest, SaysWhyOnBothSides) {
  const int port = free_port();
  Meeting meeting(at_port(port));
  const RendezvousOptions options = {.token = "right", .timeout = kLong};
  const Outcome& host = meeting.start(0, 3, options);
  const Hello hello = {.nonce = "", .rank = 1, .size = 3, .payload = "from 1"};
  Acceptance guest = introduce_soon(port, hello, "right");
  const Outcome& wrong = meeting.start(GetParam().rank, GetParam().size,
                                       {.token = GetParam().token, .timeout = kLong});
  meeting.notes.await(GetParam().reason);
  meeting.start(2, 3, options);
  meeting.join();
  EXPECT_TRUE(contains(wrong.error, GetParam().reason)) << wrong.error;
  EXPECT_TRUE(contains(wrong.error, "refuses rank")) << wrong.error;
  EXPECT_TRUE(wrong.config_error);
  EXPECT_EQ(host.payloads, all_payloads(3)) << host.error;
  EXPECT_EQ(await_table(guest, kLong), all_payloads(3));
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, RefusalTest,
    ::testing::Values(
        RefusalCase{"token", 2, 3, "wrong", "its token is not the one of rank 0"},
        RefusalCase{"size", 2, 4, "right", "it says that the world has 4 ranks, rank 0 says 3"},
        RefusalCase{"duplicate", 1, 3, "right", "rank 1 is there already (from 127.0.0.1 port "}),
    [](const auto& test) { return test.param.name; });

TEST(RendezvousTest, AGuestNoticesThatRank0Died) {
  const Listener listener = listen_on("127.0.0.1", 0);
  std::thread rank_0([&] {
    std::string from;
    wait_ready(listener.fd.get(), POLLIN, Clock::now() + kLong);
    const UniqueFd fd = accept_from(listener.fd.get(), from);
    act_as_rank_0(fd, kToken);
  });
  Meeting meeting(at_port(listener.port));
  const Outcome& guest = meeting.start(1, 2);
  meeting.join();
  rank_0.join();
  EXPECT_TRUE(contains(guest.error, "rank 1 waited for the other ranks at rank 0, 127.0.0.1:"))
      << guest.error;
  EXPECT_TRUE(contains(guest.error, "it went away before all ranks had come")) << guest.error;
  EXPECT_FALSE(guest.config_error);
}

TEST(RendezvousTest, SecondRank0FindsThePortTaken) {
  const int port = free_port();
  Meeting meeting(at_port(port));
  const Outcome& host = meeting.start(0, 2);
  const Outcome& guest = meeting.start(1, 3);  // refused: proves that rank 0 listens
  meeting.notes.await("refused");
  Meeting late(at_port(port));
  const Outcome& second = late.start(0, 2);
  late.join();
  EXPECT_TRUE(second.config_error);
  EXPECT_TRUE(contains(second.error, fmt::format("cannot listen on 127.0.0.1:{}: Address already "
                                                 "in use",
                                                 port)))
      << second.error;
  EXPECT_TRUE(contains(second.error, "choose a free MASTER_PORT")) << second.error;
  meeting.start(1, 2);
  meeting.join();
  EXPECT_EQ(host.payloads, all_payloads(2)) << host.error;
  EXPECT_TRUE(guest.config_error);
}

TEST(RendezvousTest, FindsTheFirstFreePort) {
  // Somebody who accepts connections and says nothing sits on the first.
  const Listener taken = listen_on("127.0.0.1", 0);
  const auto maker = [&](RendezvousOptions options) {
    options.token = kToken;
    return rendezvous_at({.host = "127.0.0.1", .port = taken.port, .num_ports = 8},
                         std::move(options));
  };
  Meeting meeting(maker);
  const Outcome& host = meeting.start(0, 2);
  const Outcome& guest = meeting.start(1, 2);
  meeting.join();
  EXPECT_EQ(host.payloads, all_payloads(2)) << host.error;
  EXPECT_EQ(guest.payloads, all_payloads(2)) << guest.error;
}

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

TEST(RendezvousTest, ChecksItsArguments) {
  const auto meet = [](int rank, int size, const std::string& payload, const std::string& token) {
    return [=] {
      rendezvous_at({.host = "127.0.0.1", .port = 1}, {.token = token, .timeout = kShort})
          ->exchange(rank, size, payload);
    };
  };
  EXPECT_THROW(meet(2, 2, "", "")(), ConfigError);
  EXPECT_THROW(meet(-1, 2, "", "")(), ConfigError);
  EXPECT_THROW(meet(1, 2, std::string(Rendezvous::kMaxPayloadBytes + 1, 'x'), "")(), Error);
  EXPECT_THROW(meet(1, 2, "", "two\nlines")(), ConfigError);
  EXPECT_THROW(meet(1, 2, "", std::string(2000, 'x'))(), ConfigError);
}

TEST(RendezvousTest, EveryAddressNeedsAToken) {
  for (const auto& [rank, host] : {std::pair(0, "192.0.2.1"), std::pair(1, "192.0.2.1"),
                                   std::pair(0, "127.0.0.1"), std::pair(1, "localhost")}) {
    const auto meeting = rendezvous_at({.host = host, .port = 29500}, {.timeout = kShort});
    try {
      meeting->exchange(rank, 2, "");
      FAIL() << "no token, and no refusal";
    } catch (const ConfigError& error) {
      EXPECT_TRUE(contains(error.what(), "TESSERA_RUN_TOKEN")) << error.what();
    }
  }
}

// As torchrun starts them: MASTER_ADDR is a name of this host, and nobody made a token. A file that
// only this user can read has one.
TEST(RendezvousTest, RanksOfOneHostMeetInAFolderOfTheirUser) {
  const TestFolder folder;
  LaunchContext context;
  context.launcher = Launcher::kTorchrun;
  context.size = 2;
  context.local_size = 2;
  context.master_address = "192.0.2.1";
  context.master_port = free_port();
  Meeting meeting([&](const RendezvousOptions& options) {
    return rendezvous_for(context, options, folder.path());
  });
  const std::string own = folder.path(fmt::format("tessera-{}", ::geteuid()));
  const std::string note = fmt::format("{}/meet-{}", own, context.master_port);
  const Outcome& zero = meeting.start(0, 2);
  const auto deadline = Clock::now() + kLong;
  struct stat status {};
  while (::stat(note.c_str(), &status) != 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(::stat(own.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  meeting.start(1, 2);
  meeting.join();
  EXPECT_EQ(zero.payloads, all_payloads(2)) << zero.error;
}

TEST(PrivateFolderTest, AFolderOfOthersIsRefused) {
  const TestFolder folder;
  const std::string own = private_folder(folder.path());
  EXPECT_EQ(private_folder(folder.path()), own);
  ASSERT_EQ(::chmod(own.c_str(), 0755), 0);
  EXPECT_THROW(private_folder(folder.path()), ConfigError);
  ASSERT_EQ(::rmdir(own.c_str()), 0);
  ASSERT_EQ(::symlink(folder.path().c_str(), own.c_str()), 0);
  EXPECT_THROW(private_folder(folder.path()), ConfigError);
  EXPECT_THROW(private_folder(folder.path("absent")), ConfigError);
}

TEST(TokenTest, TokensAreComparedWhole) {
  EXPECT_TRUE(same_token("", ""));
  EXPECT_TRUE(same_token("secret", "secret"));
  for (const char* other : {"", "secres", "tecret", "secret1", "secre"}) {
    EXPECT_FALSE(same_token("secret", other)) << other;
  }
}

class FileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path("meet"); }

  // The note of a run whose rank 0 is `pid`.
  static MeetingNote note_of(pid_t pid, uint64_t started, int port) {
    return {.addresses = {"127.0.0.1"},
            .port = port,
            .token = "old",
            .host = this_host(),
            .pid = pid,
            .started = started};
  }
  static pid_t dead_process() {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    ::waitpid(pid, nullptr, 0);
    return pid;
  }
  // Nothing of the rendezvous is left in the folder.
  void expect_empty() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path(""))) {
      ADD_FAILURE() << entry.path();
    }
  }
  void expect_meeting(RendezvousOptions options = {.timeout = kLong}) const {
    Meeting meeting(through(path()));
    std::vector<Outcome*> outcomes;
    for (int rank = 3; rank >= 0; --rank) outcomes.push_back(&meeting.start(rank, 4, options));
    meeting.join();
    for (const Outcome* outcome : outcomes) {
      EXPECT_EQ(outcome->payloads, all_payloads(4)) << outcome->error;
    }
    expect_empty();
  }
  // What rank 0 says when it may not use the path.
  [[nodiscard]] std::string refusal() const {
    Meeting meeting(through(path()));
    const Outcome& host = meeting.start(0, 2, {.timeout = kShort});
    meeting.join();
    EXPECT_TRUE(host.config_error) << host.error;
    return host.error;
  }

  TestFolder folder_;
};

TEST_F(FileTest, LeadsRanksTogether) {
  expect_meeting();
  expect_meeting({.token = "mine", .timeout = kLong});
}

TEST_F(FileTest, OnlyItsOwnerReadsIt) {
  const MeetingFile file(path(), note_of(::getpid(), 1, 1));
  EXPECT_EQ(std::filesystem::status(path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(FileTest, ReadsWhatItWrote) {
  const MeetingNote note = note_of(4711, 123456789012345ULL, 29500);
  const std::string text = to_text(note);
  const MeetingNote read = parse_meeting_note(text).value();
  EXPECT_EQ(read.addresses, note.addresses);
  EXPECT_EQ(read.port, note.port);
  EXPECT_EQ(read.token, note.token);
  EXPECT_EQ(read.host, note.host);
  EXPECT_EQ(read.pid, note.pid);
  EXPECT_EQ(read.started, note.started);
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_meeting_note(text.substr(0, length)).has_value()) << length;
  }
}

TEST_F(FileTest, ReplacesTheFileOfADeadRun) {
  folder_.write("meet", to_text(note_of(dead_process(), 1, free_port())));
  expect_meeting();
  // The pid has gone to another process: this one.
  const uint64_t started = start_time_of(::getpid()).value();
  folder_.write("meet", to_text(note_of(::getpid(), started + 1, free_port())));
  expect_meeting();
}

TEST_F(FileTest, ReplacesWhatACrashLeftHalfWritten) {
  folder_.write("meet", to_text(note_of(1, 1, 1)).substr(0, 50));
  expect_meeting();
}

// Before a reboot, or on another host: nobody answers at that address.
TEST_F(FileTest, ReplacesTheFileOfAnotherBoot) {
  MeetingNote note = note_of(::getpid(), start_time_of(::getpid()).value(), free_port());
  note.host.boot = "another";
  folder_.write("meet", to_text(note));
  Meeting meeting(through(path()));
  const Outcome& host = meeting.start(0, 2);
  // A guest cannot tell that the file is old, and goes on looking.
  const Outcome& guest = meeting.start(1, 2);
  meeting.join();
  EXPECT_EQ(host.payloads, all_payloads(2)) << host.error;
  EXPECT_EQ(guest.payloads, all_payloads(2)) << guest.error;
}

TEST_F(FileTest, RefusesTheFileOfALiveRun) {
  Meeting meeting(through(path()));
  const Outcome& host = meeting.start(0, 2);
  while (read_meeting_file(path()).empty()) std::this_thread::sleep_for(milliseconds(2));
  EXPECT_TRUE(
      contains(refusal(), fmt::format("belongs to a run that is waiting for its ranks (rank "
                                      "0 is pid {} on this host): choose another path",
                                      ::getpid())));
  meeting.start(1, 2);
  meeting.join();
  EXPECT_EQ(host.payloads, all_payloads(2)) << host.error;
}

TEST_F(FileTest, RefusesTheFileOfALiveRunElsewhere) {
  const Listener elsewhere = listen_on("127.0.0.1", 0);
  MeetingNote note = note_of(4711, 1, elsewhere.port);
  note.host.boot = "another";
  note.host.name = "far-away";
  folder_.write("meet", to_text(note));
  EXPECT_TRUE(contains(refusal(), "rank 0 is pid 4711 on host far-away"));
}

TEST_F(FileTest, LeavesOtherFilesAlone) {
  folder_.write("meet", "my thesis\n");
  EXPECT_TRUE(contains(refusal(), "exists and is no rendezvous file"));
  EXPECT_EQ(testing::read_file(path()), "my thesis\n");
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_TRUE(contains(refusal(), "exists and is no rendezvous file"));
  EXPECT_TRUE(std::filesystem::is_directory(path()));
}

TEST_F(FileTest, RefusesAPathThatCannotBe) {
  Meeting meeting(through(folder_.path("no/such/folder")));
  const Outcome& host = meeting.start(0, 2, {.timeout = kShort});
  const Outcome& guest = meeting.start(1, 2, {.timeout = kShort});
  meeting.join();
  EXPECT_TRUE(host.config_error);
  EXPECT_TRUE(contains(host.error, "cannot create the rendezvous file")) << host.error;
  EXPECT_TRUE(contains(guest.error, "rank 1 did not find rank 0 through the file")) << guest.error;
  EXPECT_TRUE(contains(guest.error, "there is no such file")) << guest.error;
}

TEST_F(FileTest, RefusesAWrongToken) {
  Meeting meeting(through(path()));
  const Outcome& host = meeting.start(0, 2);  // with a random token
  const Outcome& wrong = meeting.start(1, 2, {.token = "wrong", .timeout = kLong});
  meeting.notes.await("its token is not the one of rank 0");
  meeting.start(1, 2);
  meeting.join();
  EXPECT_TRUE(wrong.config_error);
  EXPECT_TRUE(contains(wrong.error, "its token is not the one of rank 0")) << wrong.error;
  EXPECT_EQ(host.payloads, all_payloads(2)) << host.error;
}

TEST_F(FileTest, ATimeoutLeavesNothingBehind) {
  Meeting meeting(through(path()));
  const Outcome& host = meeting.start(0, 3, {.timeout = kShort});
  meeting.join();
  EXPECT_TRUE(contains(host.error, "ranks 1-2 of 3 did not come")) << host.error;
  expect_empty();
}

}  // namespace
}  // namespace tessera
