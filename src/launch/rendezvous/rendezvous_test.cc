// Ranks as threads that find each other.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
#include "launch/testing/meeting.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

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

}  // namespace
}  // namespace tessera
