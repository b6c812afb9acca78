#include "train/session/host_room.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "comm/local/local_world.h"
#include "runtime/rank_threads.h"

namespace tessera {
namespace {

void on_ranks(int size, const std::function<void(Communicator&)>& body) {
  LocalWorld local({.size = size});
  run_rank_threads(local, [&](int rank) {
    const std::unique_ptr<Communicator> control = local.endpoint(rank).join_all("control");
    body(*control);
  });
}

std::string refuse(const HostShare& share) {
  return fmt::format("{} ranks are too many", share.ranks);
}

TEST(HostRoomTest, RanksThatFitGoOn) {
  on_ranks(3, [](Communicator& control) { require_room_on_hosts(control, 1 << 20, refuse); });
}

// No rank needs more than there is; together they do.
TEST(HostRoomTest, RanksOfOneHostAreAddedUp) {
  const int64_t each = host_memory().available_bytes * 3 / 4;
  std::atomic<int> refused{0};
  on_ranks(2, [&](Communicator& control) {
    try {
      require_room_on_hosts(control, each, refuse);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kDoesNotFit);
      const std::string text = error.what();
      const bool advised = text.find("2 ranks are too many") != std::string::npos;
      EXPECT_EQ(advised, control.rank() == 0) << text;
      EXPECT_NE(text.find("on host "), std::string::npos) << text;
      ++refused;
    }
  });
  EXPECT_EQ(refused.load(), 2);
}

}  // namespace
}  // namespace tessera
