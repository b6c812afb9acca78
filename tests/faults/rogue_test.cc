// Rows 22 to 25 of the matrix of faults on one host: agents that are silent, and visitors of the
// ports of a run that should not be there.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <random>
#include <set>

#include "base/error.h"
#include "faults/hosts_run.h"
#include "launch/hosts/handshake.h"
#include "launch/hosts/host_messages.h"

namespace tessera::testing {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

class RogueTest : public HostsTest {
 protected:
  static constexpr const char* kToken = "a-secret-of-this-test";

  UniqueFd visit() const { return connect_to("127.0.0.1", port_, Clock::now() + 5s); }
  ControlLink link() const { return {visit(), "the coordinator", /*is_host=*/false}; }

  // Why a visitor is refused, and within what time; empty: it was welcome.
  std::string refusal_of(const std::string& token, const ControlFrame& greeting) {
    ControlLink visitor = link();
    const Clock::time_point begin = Clock::now();
    std::string refusal;
    try {
      (void)introduce(visitor, token, greeting, Clock::now() + 5s);
    } catch (const std::exception& error) {
      refusal = error.what();
    }
    slowest_ = std::max(slowest_, Clock::now() - begin);
    return refusal;
  }
  static ControlFrame hello(int host, uint64_t run = 0, uint64_t generation = 0) {
    return {.run = run,
            .generation = generation,
            .body = to_body(HostHello{.host = host, .incarnation = "rogue"})};
  }
  // What a spare says to be let in, as somebody between it and the coordinator hears it.
  std::string bytes_of_join(int host) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return "";
    ControlLink spare(UniqueFd(ends[0]), "the coordinator", /*is_host=*/false);
    const UniqueFd ear(ends[1]);
    const UniqueFd coordinator = visit();
    std::string heard;
    std::atomic<bool> over = false;
    std::thread between([&] {
      while (!over) {
        std::string out, in;
        (void)receive_some(ear.get(), out);
        (void)send_all(coordinator.get(), out, Clock::now() + 1s);
        heard += out;
        (void)receive_some(coordinator.get(), in);
        (void)send_all(ear.get(), in, Clock::now() + 1s);
        std::this_thread::sleep_for(1ms);
      }
    });
    EXPECT_EQ(introduce(spare, kToken, hello(host), Clock::now() + 5s).generation, 1U);
    over = true;
    between.join();
    return heard;
  }
  void expect_undisturbed(Command& first, Command& second) {
    expect_both_survive(first, second);
    EXPECT_TRUE(events("verdict").empty());
    EXPECT_TRUE(events("restart").empty());
  }

  Clock::duration slowest_{};
};

TEST_F(RogueTest, Row22ASilentAgentIsFencedAndASpareTakesItsPlace) {
  const HostSetting as{.fault = kSlow, .flags = "--restarts 2 --host-lease 3"};
  Command& first = start(0, as);
  Command& second = start(1, as);
  Command& spare = start(2, as);
  await_steps(3);
  second.signal(SIGSTOP);
  EXPECT_EQ(first.finish().code, 0) << said();
  EXPECT_EQ(spare.finish().code, 0) << said();
  expect_same_run();
  expect_verdict({.verdict = "partitioned", .rank = 1});
  EXPECT_EQ(events("restart").size(), 1U);
  second.signal(SIGCONT);
  // It has come too late, and finds nobody: the run is over.
  second.signal(SIGTERM);
  EXPECT_NE(second.finish().code, 0);
  expect_all_gone();
}

TEST_F(RogueTest, Row23AShortSilenceIsNoLoss) {
  const HostSetting as{.fault = kSlow, .flags = "--restarts 2 --host-lease 20"};
  Command& first = start(0, as);
  Command& second = start(1, as);
  await_steps(3);
  second.signal(SIGSTOP);
  std::this_thread::sleep_for(1500ms);
  second.signal(SIGCONT);
  expect_undisturbed(first, second);
}

TEST_F(RogueTest, Row24WhoeverShouldNotComeIsRefusedAtOnce) {
  const HostSetting as{.fault = kSlow, .token = kToken};
  Command& first = start(0, as);
  Command& second = start(1, as);
  await_steps(2);
  EXPECT_NE(refusal_of("", hello(2)).find("does not know the token"), std::string::npos);
  EXPECT_NE(refusal_of("a-secret-of-this-tesT", hello(2)).find("does not know the token"),
            std::string::npos);
  EXPECT_NE(refusal_of(kToken, hello(1)).find("host 1 is there already"), std::string::npos);
  EXPECT_NE(refusal_of(kToken, hello(0)).find("host 0 is there already"), std::string::npos);
  EXPECT_NE(refusal_of(kToken, hello(2, 12345)).find("another run"), std::string::npos);
  EXPECT_FALSE(refusal_of(kToken, hello(-1)).empty());
  EXPECT_LT(slowest_, 2s);  // 0.1 s where the machine has time
  expect_undisturbed(first, second);
  EXPECT_NE(said().find("host 1 is there already"), std::string::npos) << said();
}

TEST_F(RogueTest, Row24AJoinThatWasOverheardIsOfNoUse) {
  const HostSetting as{.fault = kSlow, .token = kToken};
  Command& first = start(0, as);
  Command& second = start(1, as);
  await_steps(2);
  const std::string overheard = bytes_of_join(7);
  ASSERT_NE(overheard.find("TSCT"), std::string::npos);
  for (int round = 0; round < 2; ++round) {
    const UniqueFd visitor = visit();
    ASSERT_TRUE(send_all(visitor.get(), overheard, Clock::now() + 1s));
    std::string answer;
    while (wait_ready(visitor.get(), POLLIN, Clock::now() + 2s) &&
           receive_some(visitor.get(), answer) != Received::kClosed) {
    }
    EXPECT_NE(answer.find("does not know the token"), std::string::npos);
  }
  expect_undisturbed(first, second);
}

TEST_F(RogueTest, Row24AStrangerWithTheTokenCannotSpeakForAGenerationThatIsOver) {
  const HostSetting as{.fault = std::string(kSlow) + ";step.begin:rank=1,step=3,act=kill",
                       .token = kToken};
  Command& first = start(0, as);
  Command& second = start(1, as);
  ASSERT_TRUE(wait_until([&] { return events("restart").size() == 1; })) << said();
  await_steps(4);
  ControlLink zombie = link();
  const ControlFrame welcome = introduce(zombie, kToken, hello(7), Clock::now() + 5s);
  EXPECT_EQ(welcome.generation, 2U);
  GenerationReport lie{.exit_code = 1, .message = "lost"};
  lie.loss = RankLoss{.rank = 0, .reason = "rank 0 (pid 1) was killed", .curable = true};
  zombie.send(
      {.kind = ControlKind::kEnded, .run = welcome.run, .generation = 1, .body = to_body(lie)});
  EXPECT_EQ(zombie.await(Clock::now() + 5s).kind, ControlKind::kStale);
  zombie.close();
  expect_both_survive(first, second);
  EXPECT_EQ(events("restart").size(), 1U);
}

// Sockets that are open in processes whose working directory is `folder`, as /proc numbers them.
std::set<std::string> sockets_in(const std::filesystem::path& folder) {
  std::set<std::string> sockets;
  std::error_code gone;
  for (const auto& process : std::filesystem::directory_iterator("/proc", gone)) {
    if (std::filesystem::read_symlink(process.path() / "cwd", gone) != folder || gone) continue;
    for (const auto& fd : std::filesystem::directory_iterator(process.path() / "fd", gone)) {
      const std::string target = std::filesystem::read_symlink(fd.path(), gone);
      if (target.starts_with("socket:[")) sockets.insert(target.substr(8, target.size() - 9));
    }
  }
  return sockets;
}

// Ports of the run: that of the coordinator, and those of ranks that have not met yet.
std::vector<int> ports_of_run(const std::string& folder) {
  const std::set<std::string> sockets = sockets_in(std::filesystem::canonical(folder));
  std::vector<int> ports;
  std::istringstream lines(read_file("/proc/net/tcp"));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    const std::vector<std::string> fields = words_of(line);
    constexpr size_t kLocal = 1, kState = 3, kInode = 9;
    if (fields.size() <= kInode || fields[kState] != "0A" || !sockets.contains(fields[kInode])) {
      continue;
    }
    ports.push_back(static_cast<int>(std::stol(fields[kLocal].substr(9), nullptr, 16)));
  }
  return ports;
}

TEST_F(RogueTest, Row25GarbageOnEveryPortIsDropped) {
  const HostSetting as{.fault = std::string(kSlow) + ";comm.init:act=delay=300", .token = kToken};
  Command& first = start(0, as);
  Command& second = start(1, as);
  std::mt19937 random(25);
  const std::string hello_bytes = to_bytes(hello(1), {});
  std::vector<UniqueFd> silent;
  size_t visits = 0;
  while (steps_done() < 6) {
    for (const int port : ports_of_run(folder_.path())) {
      std::string bytes = hello_bytes;
      switch (random() % 4) {
        case 0:  // anything
          for (char& byte : bytes) byte = static_cast<char>(random());
          break;
        case 1:  // cut off
          bytes.resize(random() % bytes.size());
          break;
        case 2:  // a length that nobody has memory for
          bytes.replace(12, 4, "\xff\xff\xff\x7f");
          break;
        default:  // one byte is another one
          bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      try {
        UniqueFd visitor = connect_to("127.0.0.1", port, Clock::now() + 1s);
        (void)send_all(visitor.get(), bytes, Clock::now() + 1s);
        if (random() % 4 == 0) silent.push_back(std::move(visitor));  // and says nothing more
        ++visits;
      } catch (const Error&) {
        // The port was that of a rank that has met the others.
      }
    }
    if (silent.size() > 100) silent.clear();
    std::this_thread::sleep_for(20ms);
    ASSERT_LT(visits, 100'000U);
  }
  EXPECT_GT(visits, 20U);
  expect_undisturbed(first, second);
}

}  // namespace
}  // namespace tessera::testing
