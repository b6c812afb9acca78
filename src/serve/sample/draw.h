// One draw from a row: argmax of x + Gumbel over the tokens that are kept. The noise of a token is
// -log(E), and E = -log(1 - w) for a w in (0, 1) whose 64 bits are Philox's at (seed, choice,
// position, token). Most tokens are left out by the first half of their bits alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "serve/sample/cut.h"

namespace tessera::serve {

// Where a draw's random bits are. Four tokens that follow each other share a block of Philox.
struct DrawPlace {
  uint64_t seed = 0;
  uint32_t choice = 0;
  int64_t position = 0;

  enum class Half : uint8_t { kFirst, kSecond };  // of the 64 bits of a token
  [[nodiscard]] std::array<uint32_t, 4> block(uint32_t token_block, Half half) const;
  [[nodiscard]] double noise(int32_t token, uint32_t first_bits) const;
};

// The drawn token; of equal sums that with the lowest id. values[i] <= 0, weights[i] = e^values[i];
// at least one value is 0 and kept.
int32_t draw(std::span<const double> values, std::span<const double> weights, const Cut& cut,
             const DrawPlace& place);

}  // namespace tessera::serve
