// Ranks that were started one by one become a world: real processes, as torchrun starts them.
#include "launch/join/shm_join.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "base/testing/test_folder.h"
#include "launch/rendezvous/host_identity.h"
#include "launch/rendezvous/socket.h"
#include "launch/testing/test_process.h"

namespace tessera {
namespace {

using namespace tessera::testing;

using Variables = std::map<std::string, std::string>;

std::unique_ptr<TestProcess> start_rank(int rank, int size, Variables more,
                                        int timeout_ms = 20'000) {
  more.emplace("RANK", std::to_string(rank));
  more.emplace("WORLD_SIZE", std::to_string(size));
  return std::make_unique<TestProcess>(
      ProcessOptions{.arguments = {"--as-rank", "meet", std::to_string(timeout_ms)},
                     .environment = std::move(more)});
}

Variables at_free_port() {
  const int port = listen_on("127.0.0.1", 0).port;
  return {{"MASTER_ADDR", "localhost"},
          {"MASTER_PORT", std::to_string(port)},
          {"TESSERA_RUN_TOKEN", "of-these-tests"}};
}

void expect_sum(const Variables& variables) {
  constexpr int kRanks = 4;
  std::vector<std::unique_ptr<TestProcess>> ranks;
  for (int rank = kRanks - 1; rank >= 0; --rank) {
    ranks.push_back(start_rank(rank, kRanks, variables));
  }
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->finish().code, 0) << rank->err();
    EXPECT_EQ(rank->out(), "sum 6\n") << rank->err();
  }
}

TEST(ShmJoinTest, MeetsAtAnAddress) { expect_sum(at_free_port()); }

TEST(ShmJoinTest, MeetsThroughAFile) {
  const TestFolder folder;
  expect_sum({{"TESSERA_RENDEZVOUS_FILE", folder.path("meet")}});
}

TEST(ShmJoinTest, MeetsBesideTheStoreOfTorchrun) {
  const Listener store = listen_on("localhost", 0);
  expect_sum({{"MASTER_ADDR", "localhost"},
              {"MASTER_PORT", std::to_string(store.port)},
              {"TORCHELASTIC_USE_AGENT_STORE", "True"},
              {"TORCHELASTIC_RUN_ID", "named"}});
}

// Through a file that only this user can read.
TEST(ShmJoinTest, MeetsOnThisHostWithoutAToken) {
  Variables place = at_free_port();
  place.erase("TESSERA_RUN_TOKEN");
  place.emplace("TORCHELASTIC_RUN_ID", "none");
  expect_sum(place);
}

TEST(ShmJoinTest, OneRankMeetsNobody) {
  const auto rank = start_rank(0, 1, {});
  EXPECT_EQ(rank->finish().code, 0) << rank->err();
  EXPECT_EQ(rank->out(), "sum 0\n");
}

TEST(ShmJoinTest, RefusedRanksExitWithTwo) {
  const Variables place = at_free_port();
  const auto host = start_rank(0, 2, place);
  const auto wrong = start_rank(1, 3, place);
  EXPECT_EQ(wrong->finish().code, 2);
  EXPECT_TRUE(contains(wrong->err(), "the world has 3 ranks, rank 0 says 2")) << wrong->err();
  const auto right = start_rank(1, 2, place);
  EXPECT_EQ(right->finish().code, 0) << right->err();
  EXPECT_EQ(host->finish().code, 0);
  EXPECT_TRUE(contains(host->err(), "refused 127.0.0.1")) << host->err();
}

TEST(ShmJoinTest, AFileOfAKilledRank0DoesNotKeepTheNextRunOut) {
  const TestFolder folder;
  const Variables place = {{"TESSERA_RENDEZVOUS_FILE", folder.path("meet")}};
  const auto host = start_rank(0, 3, place);
  const auto wrong = start_rank(2, 4, place);
  EXPECT_EQ(wrong->finish().code, 2) << "rank 0 listens, and refuses it";
  host->signal(SIGKILL);
  EXPECT_EQ(host->finish().signal, SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(folder.path("meet")));
  expect_sum(place);
}

// Says that it is somewhere else than it is.
class ElsewhereRendezvous : public Rendezvous {
 public:
  explicit ElsewhereRendezvous(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}
  std::vector<std::string> exchange(int /*rank*/, int size, const std::string& payload) override {
    std::vector<std::string> payloads;
    for (int rank = 0; rank < size; ++rank) {
      std::string text = payload;
      const std::string& host = hosts_.at(static_cast<size_t>(rank));
      const HostIdentity here = this_host();
      text.replace(0, here.name.size(), host);
      const size_t boot = text.find(here.boot);
      text.replace(boot, here.boot.size(), "boot of " + host);
      payloads.push_back(text);
    }
    return payloads;
  }

 private:
  std::vector<std::string> hosts_;
};

TEST(ShmJoinTest, StrangersCannotIntroduceThemselves) {
  const HostIdentity here = this_host();
  const auto text = [&](const std::string& boot, const std::string& pid, int64_t user) {
    return fmt::format("\033name\n{}\n{}\n{}\n{}\n{}\n", boot, here.pid_namespace,
                       here.net_namespace, pid, user);
  };
  const auto objection = [](const std::string& payload, bool only_here = true) {
    return objection_to_presence(1, payload, only_here);
  };
  const std::string pid = std::to_string(::getpid());
  const auto user = static_cast<int64_t>(::geteuid());
  EXPECT_EQ(objection(text(here.boot, pid, user)), "");
  EXPECT_EQ(objection(text("elsewhere", pid, user), /*only_here=*/false), "");
  EXPECT_TRUE(contains(objection("x\ny"), "2 lines instead of 7"));
  EXPECT_TRUE(contains(objection(text(here.boot, "zz", user)), "where a number should be"));
  EXPECT_TRUE(contains(objection(text("elsewhere", pid, user)), "on host \\u001bname"));
  EXPECT_TRUE(contains(objection(text(here.boot, pid, user + 1)), "runs as user"));
  // The last three have the low bits of a process that there is.
  const int64_t more = int64_t{1} << 32;
  for (const std::string& none : {std::string("2147483647"), std::string("0"), std::string("-1"),
                                  std::to_string(more + ::getpid()), std::to_string(more + 1),
                                  std::to_string(-more + ::getpid())}) {
    EXPECT_TRUE(contains(objection(text(here.boot, none, user)), "there is none")) << none;
  }
}

TEST(ShmJoinTest, RefusesSeveralHosts) {
  ElsewhereRendezvous rendezvous({"a", "a", "b", "a", "b", "c"});
  for (const int rank : {0, 4}) {
    try {
      (void)join_shm_by_rendezvous(rendezvous, {.rank = rank, .size = 6});
      FAIL();
    } catch (const ConfigError& error) {
      EXPECT_STREQ(error.what(),
                   "ranks 0-1 and 3 are on host a, ranks 2 and 4 on host b, rank 5 on host c: "
                   "start them with mpirun or srun (docs/multi-machine.md)");
    }
  }
}

TEST(ShmJoinTest, NamesRanksThatDoNotFetchTheMemory) {
  ElsewhereRendezvous rendezvous({"a", "a", "a"});
  const auto join = [&] {
    (void)join_shm_by_rendezvous(
        rendezvous,
        {.rank = 0, .size = 3, .bytes_per_rank = 1 << 20, .timeout = milliseconds(200)});
  };
  try {
    join();
    FAIL();
  } catch (const CommError& error) {
    EXPECT_STREQ(error.what(), "rank 0 waited in vain for ranks 1-2 to fetch the shared memory");
  }
}

}  // namespace
}  // namespace tessera
