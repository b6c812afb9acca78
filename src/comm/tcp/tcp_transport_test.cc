// The suite that every backend must pass, over sockets; and what must not come through them.
#include "comm/tcp/tcp_transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>

#include "collective/schedule.h"
#include "comm/message/message_world.h"
#include "comm/testing/message_world.h"
#include "comm/testing/scenarios.h"

namespace tessera {
namespace {

using namespace tessera::testing;

constexpr int kRanksPerNode = 2;
constexpr uint64_t kRun = 77;
constexpr uint64_t kGeneration = 3;

// sockets[i][j]: the end of rank i of its connection to rank j.
class Mesh {
 public:
  explicit Mesh(int ranks) : sockets_(static_cast<size_t>(ranks)) {
    for (std::vector<int>& row : sockets_) row.assign(static_cast<size_t>(ranks), -1);
    for (size_t i = 0; i < sockets_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
          throw Error("socketpair");
        }
        // Small buffers, so that frames are cut.
        const int few = 4096;
        for (const int end : ends) ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &few, sizeof(few));
        sockets_[i][j] = ends[0];
        sockets_[j][i] = ends[1];
      }
    }
  }
  int socket(int rank, int peer) {
    return sockets_[static_cast<size_t>(rank)][static_cast<size_t>(peer)];
  }
  TcpTransportOptions options(int rank) {
    TcpTransportOptions options{.rank = rank, .run = kRun, .generation = kGeneration};
    for (int peer = 0; peer < static_cast<int>(sockets_.size()); ++peer) {
      options.peers.push_back({.socket = socket(rank, peer),
                               .pid = 100 + peer,
                               .host = "host",
                               .node = peer / kRanksPerNode});
    }
    return options;
  }

 private:
  std::vector<std::vector<int>> sockets_;
};

std::vector<std::string> run_tcp_ranks(int ranks, const std::function<void(CommWorld&)>& body) {
  Mesh mesh(ranks);
  return run_ranks(ranks, [&](int rank) {
    const auto world =
        make_message_world(std::make_unique<TcpTransport>(mesh.options(rank)), patient());
    body(*world);
  });
}

bool offers(const SuiteCase& c, int) { return supports(c.op, c.algorithm); }

int64_t bytes_of(const SuiteCase& c, int rank, int size) {
  std::vector<int> nodes;
  for (int peer = 0; peer < size; ++peer) nodes.push_back(peer / kRanksPerNode);
  return scheduled_bytes(c, rank, size, nodes);
}

class TcpSuiteTest : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(TcpSuiteTest, Passes) {
  const auto [scenario, ranks] = GetParam();
  const Scenario& tested = all_scenarios()[static_cast<size_t>(scenario)];
  const SuiteTraits traits = {.offers = offers, .bytes_sent = bytes_of};
  expect_no_errors(
      run_tcp_ranks(ranks, [&](CommWorld& world) { (void)run_scenario(tested, world, traits); }));
}

// Scenario and ranks. What more ranks do is the same over every transport.
std::vector<std::tuple<int, int>> suite_runs() {
  std::vector<std::tuple<int, int>> runs;
  for (int i = 0; i < static_cast<int>(all_scenarios().size()); ++i) {
    const bool large = all_scenarios()[static_cast<size_t>(i)].name.starts_with("large");
    runs.emplace_back(i, large ? 2 : 3);
  }
  return runs;
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, TcpSuiteTest, ::testing::ValuesIn(suite_runs()), [](const auto& test) {
      return std::string(all_scenarios()[static_cast<size_t>(std::get<0>(test.param))].name) + "_" +
             std::to_string(std::get<1>(test.param));
    });

TEST(TcpTransportTest, ARankThatGoesIsNamedByAllOthers) {
  Mesh mesh(3);
  const auto errors = run_ranks(3, [&](int rank) {
    if (rank == 1) {
      for (const int peer : {0, 2}) ::close(mesh.socket(1, peer));
      return;
    }
    const auto world =
        make_message_world(std::make_unique<TcpTransport>(mesh.options(rank)), patient());
    world->join_all("world")->run({.op = CollectiveOp::kBarrier});
  });
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(contains(errors[static_cast<size_t>(rank)], "rank 1 (pid 101 on host) is gone"))
        << errors[static_cast<size_t>(rank)];
  }
}

TEST(TcpTransportTest, AnAbortReachesEveryRankAndItsKeeper) {
  std::vector<std::string> told(3);
  Mesh mesh(3);
  const auto errors = run_ranks(3, [&](int rank) {
    TcpTransportOptions options = mesh.options(rank);
    options.on_abort = [&told, rank](const std::string& text) {
      told[static_cast<size_t>(rank)] = text;
    };
    if (rank == 2) options.trouble = [] { return std::string("the keeper says so"); };
    const auto world =
        make_message_world(std::make_unique<TcpTransport>(std::move(options)), patient());
    // One barrier may be over before the word has come round.
    const auto all = world->join_all("world");
    for (int i = 0; i < 100'000; ++i) all->run({.op = CollectiveOp::kBarrier});
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(told[static_cast<size_t>(rank)], "the keeper says so");
    EXPECT_FALSE(errors[static_cast<size_t>(rank)].empty());
  }
}

// What a rank hears when its peer sends `bytes` instead of frames.
std::string error_after(const std::string& bytes) {
  Mesh mesh(2);
  const auto errors = run_ranks(2, [&](int rank) {
    if (rank == 1) {
      (void)::send(mesh.socket(1, 0), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ::close(mesh.socket(1, 0));
      return;
    }
    const auto world =
        make_message_world(std::make_unique<TcpTransport>(mesh.options(0)), patient());
    world->join_all("world")->run({.op = CollectiveOp::kBarrier});
  });
  return errors[0];
}

std::string bytes_of(const tcp::FrameHeader& header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

TEST(TcpTransportTest, FramesThatMustNotComeAreNamed) {
  using tcp::FrameHeader;
  using tcp::FrameKind;
  const FrameHeader good{.kind = FrameKind::kEnd, .run = kRun, .generation = kGeneration};
  FrameHeader header = good;
  header.generation = kGeneration - 1;
  EXPECT_TRUE(contains(error_after(bytes_of(header)), "it is of generation 2, and this is "));
  header = good;
  header.run = 1;
  EXPECT_TRUE(contains(error_after(bytes_of(header)), "it belongs to another run"));
  header = good;
  header.kind = FrameKind::kData;
  header.message_bytes = header.body_bytes = 0xffff'ffff;  // refused before it is allocated
  EXPECT_TRUE(
      contains(error_after(bytes_of(header)), "4294967295 bytes, and 1048576 are the most"));
  header.kind = FrameKind::kAbort;
  header.body_bytes = 5000;
  EXPECT_TRUE(contains(error_after(bytes_of(header)), "5000 bytes, and 4096 are the most"));
  EXPECT_TRUE(contains(error_after("GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n"),
                       "it does not speak as a rank does"));
  EXPECT_TRUE(contains(error_after("TCP"), "is gone"));
}

// Damage anywhere ends the world with an error, and nothing is read or written out of bounds.
TEST(TcpTransportTest, DamagedFramesEndTheWorldInOrder) {
  std::mt19937 random(5);
  const std::string good = bytes_of(tcp::FrameHeader{.kind = tcp::FrameKind::kData,
                                                     .run = kRun,
                                                     .generation = kGeneration,
                                                     .message_bytes = 64,
                                                     .stream = 5,
                                                     .body_bytes = 64});
  for (int round = 0; round < 60; ++round) {
    std::string bytes = good + std::string(64, 'x') + good + std::string(64, 'y');
    const size_t place = random() % bytes.size();
    bytes[place] = static_cast<char>(random());
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    EXPECT_FALSE(error_after(bytes).empty()) << place;
  }
}

}  // namespace
}  // namespace tessera
