#include "train/save/snapshot_parts.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/rank_threads.h"

namespace tessera {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kCopyBytes = 100;

// What rank `rank` has at byte `at`.
std::byte byte_of(int rank, int64_t at) { return static_cast<std::byte>(rank * 100 + at); }

// Ranks 0 and 1 want stretches of all others, rank 1 two of each, rank 2 none; whatever goes at a
// time.
TEST(SnapshotPartsTest, EveryRankGetsWhatItWantsOfTheOthers) {
  for (const int64_t at_once : {int64_t{1}, int64_t{35}, kPartsAtOnce}) {
    SCOPED_TRACE(at_once);
    LocalWorld world({.size = kRanks, .timeout = std::chrono::milliseconds(10'000)});
    run_rank_threads(world, [&](int me) {
      const auto control = world.endpoint(me).join_all("control");
      std::vector<std::byte> mine;
      for (int64_t at = 0; at < kCopyBytes; ++at) mine.push_back(byte_of(me, at));
      int taken = 0;
      std::vector<WantedPart> wanted;
      for (int rank = 0; me < 2 && rank < kRanks; ++rank) {
        for (int i = 0; rank != me && i <= me; ++i) {
          const int64_t first = 10 * rank + 40 * i;
          const int64_t bytes = 30 - 7 * i;
          const auto take = [&taken, rank, first, bytes](const std::byte* data) {
            ++taken;
            for (int64_t at = 0; at < bytes; ++at) {
              EXPECT_EQ(data[at], byte_of(rank, first + at)) << rank << " " << first + at;
            }
          };
          wanted.push_back({rank, first, bytes, take});
        }
      }
      exchange_parts(*control, wanted, mine, at_once);
      EXPECT_EQ(taken, static_cast<int>(wanted.size()));
    });
  }
}

TEST(SnapshotPartsTest, NobodyNeedsToWantAnything) {
  LocalWorld world({.size = 2, .timeout = std::chrono::milliseconds(10'000)});
  run_rank_threads(
      world, [&](int rank) { exchange_parts(*world.endpoint(rank).join_all("control"), {}, {}); });
}

}  // namespace
}  // namespace tessera
