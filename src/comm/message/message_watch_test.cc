// Whoever watches a rank from outside sees the calls that go by messages, and for whom it waits.
#include <gtest/gtest.h>

#include <thread>

#include "comm/shm/shm_world.h"
#include "comm/testing/message_world.h"

namespace tessera {
namespace {

using namespace tessera::testing;
using std::chrono::milliseconds;

TEST(MessageWatchTest, SaysWhichCallItIsInAndForWhomItWaits) {
  QueueNetwork network({.ranks = 2});
  const ShmMemory memory = ShmMemory::create({.ranks = 2, .bytes_per_rank = 1});
  expect_no_errors(run_ranks(2, [&](int rank) {
    const auto board = attach_shm_world({.fd = memory.fd(), .rank = rank});
    const auto watcher = watch_calls(*board);
    MessageWorldOptions options = patient();
    options.watcher = watcher.get();
    const auto world = make_message_world(network.transport(rank), options);
    const auto comm = world->join_all("dp");
    comm->barrier();
    for (int tries = 0; rank == 1 && memory.progress(0).waits_for != 1; ++tries) {
      ASSERT_LT(tries, 10'000) << "rank 0 does not say that it waits";
      std::this_thread::sleep_for(milliseconds(1));
    }
    if (rank == 1) {
      EXPECT_EQ(memory.progress(0).calls, 2U);
      EXPECT_EQ(memory.status(0).last_call, "barrier() #2 of group dp");
      EXPECT_EQ(memory.progress(1).waits_for, -1);
    }
    comm->barrier();
  }));
  EXPECT_EQ(memory.progress(0).waits_for, -1);
  EXPECT_EQ(memory.status(1).last_call, "barrier() #2 of group dp");
}

}  // namespace
}  // namespace tessera
