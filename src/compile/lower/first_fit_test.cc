#include "compile/lower/first_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tessera {
namespace {

struct Placed {
  Lifetime alive;
  int64_t offset = 0, bytes = 0;
};

// Everybody is looked at, in the order of offsets.
int64_t lowest_by_hand(const std::vector<Placed>& placed, Lifetime alive, int64_t bytes) {
  std::vector<Placed> sorted = placed;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
  int64_t at = 0;
  for (const Placed& other : sorted) {
    if (alive.first > other.alive.last || other.alive.first > alive.last) continue;
    if (other.offset >= at + bytes) break;
    at = std::max(at, other.offset + other.bytes);
  }
  return at;
}

TEST(FirstFit, FindsTheSamePlaceAsALookAtEverybody) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 40; ++round) {
    FirstFit fit;
    std::vector<Placed> placed;
    const int longest = 1 + below(round % 2 == 0 ? 400 : 12);
    for (int i = 0; i < 500; ++i) {
      const int first = below(400);
      const Lifetime alive{first, first + below(longest)};
      const int64_t bytes = below(6) == 0 ? 0 : 64 * (1 + below(round % 3 == 0 ? 2 : 20));
      const int64_t offset = fit.place_for(alive, bytes);
      ASSERT_EQ(offset, lowest_by_hand(placed, alive, bytes)) << "round " << round << ", " << i;
      fit.add(alive, offset, bytes);
      placed.push_back({alive, offset, bytes});
    }
  }
}

// What n layers keep from their forward to their backward lies side by side, what they need in
// between in one place: a look at everybody would be n * n / 2 of each.
int64_t looked_at_for_kept(int n) {
  FirstFit fit;
  for (int layer = 0; layer < n; ++layer) {
    const Lifetime kept{layer, 2 * n - layer};
    fit.add(kept, fit.place_for(kept, 128), 128);
  }
  EXPECT_EQ(fit.bytes(), 128 * n);
  return fit.looked_at();
}

int64_t looked_at_for_passing(int n) {
  FirstFit fit;
  for (int layer = 0; layer < n; ++layer) {
    const Lifetime in_use{layer, layer};
    fit.add(in_use, fit.place_for(in_use, 64), 64);
  }
  EXPECT_EQ(fit.bytes(), 64);
  return fit.looked_at();
}

// Both, layer by layer: the passing ones lie in gaps between kept ones, and those in gaps that
// passing ones have left.
int64_t looked_at_for_mixed(int n) {
  FirstFit fit;
  const auto place = [&](Lifetime alive, int64_t bytes) {
    fit.add(alive, fit.place_for(alive, bytes), bytes);
  };
  const int end = 6 * n;
  for (int at = 0; at < 3 * n; at += 3) {
    place({at, end - at}, 128);
    place({at + 1, at + 2}, 128);
    place({end - at - 2, end - at - 1}, 128);
  }
  for (int at = 0; at < 3 * n; at += 3) {
    place({at + 1, end - at - 1}, 64);
    place({at, at + 1}, 64);
  }
  return fit.looked_at();
}

TEST(FirstFit, LooksAtFewOfManyThatMix) {
  EXPECT_LT(looked_at_for_mixed(2000), int64_t{2000} * 300);
  EXPECT_LT(looked_at_for_mixed(8000), int64_t{8000} * 300);
}

TEST(FirstFit, LooksAtFewOfMany) {
  EXPECT_LT(looked_at_for_kept(4000), int64_t{4000} * 4000 / 50);
  EXPECT_LT(looked_at_for_passing(4000), int64_t{4000} * 4000 / 50);
}

}  // namespace
}  // namespace tessera
