// A layer of experts and the tokens that go through it: shared by the tests of both devices.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/testing/test_support.h"

namespace tessera::kernels::testing {

struct MoeSizes {
  int64_t tokens, experts, k, width, peers;
};

inline int64_t capacity_of(const MoeSizes& s) {
  return s.tokens * std::min(s.k, s.experts / s.peers);
}

// Tokens and the experts they go to; everything else is full of NaN.
struct MoeLayer {
  int64_t capacity;
  Array x, ids, gates, rows, counts, slots;

  MoeLayer(const MoeSizes& s, DType type, Rng& rng)
      : capacity(capacity_of(s)),
        x(type, {s.tokens, s.width}),
        ids(DType::kI32, {s.tokens, s.k}),
        gates(accumulate_type(type), {s.tokens, s.k}),
        rows(type, {1, s.peers, capacity, s.width}),
        counts(DType::kI32, {1, s.peers, s.experts / s.peers}),
        slots(DType::kI32, {s.tokens, s.k}) {
    x.randomise(rng), gates.randomise(rng);
    // The last expert gets something of every token, expert 0 nothing where there is a choice.
    std::vector<int> choices(static_cast<size_t>(s.experts));
    std::iota(choices.rbegin(), choices.rend(), 0);
    for (int64_t t = 0; t < s.tokens; ++t) {
      if (s.experts > s.k) std::shuffle(choices.begin() + 1, choices.end() - 1, rng);
      for (int64_t j = 0; j < s.k; ++j) ids.set(t * s.k + j, choices[static_cast<size_t>(j)]);
    }
  }
};

}  // namespace tessera::kernels::testing
