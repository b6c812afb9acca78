#include "serve/sample/draw.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"

namespace tessera::serve {
namespace {

constexpr size_t kTokensPerBlock = 4;

}  // namespace

std::array<uint32_t, 4> DrawPlace::block(uint32_t token_block, Half half) const {
  const auto place = static_cast<uint64_t>(position);
  const uint32_t high = static_cast<uint32_t>(place >> 32) << 1;
  return philox({token_block, choice, static_cast<uint32_t>(place),
                 high | static_cast<uint32_t>(half == Half::kSecond)},
                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

double DrawPlace::noise(int32_t token, uint32_t first_bits) const {
  const auto index = static_cast<size_t>(token);
  const auto second =
      block(static_cast<uint32_t>(index / kTokensPerBlock), Half::kSecond)[index % kTokensPerBlock];
  // The middle of a cell of 2^-64, so that neither 0 nor, as a double, anything but the last is 1.
  const double w =
      (static_cast<double>(first_bits) * 0x1p32 + static_cast<double>(second) + 0.5) * 0x1p-64;
  return -std::log(-std::log1p(-std::min(w, 1 - 0x1p-53)));
}

int32_t draw(std::span<const double> values, std::span<const double> weights, const Cut& cut,
             const DrawPlace& place) {
  double best = -HUGE_VAL;
  int32_t chosen = -1;
  // A sum above `best` needs E < weight / e^best, and E >= w >= the first bits of w.
  double bits_per_weight = HUGE_VAL;
  constexpr double kSlack = 1 + 1e-9;  // more than what rounding can take
  const auto try_token = [&](size_t i, uint32_t first_bits) {
    const double sum = values[i] + place.noise(static_cast<int32_t>(i), first_bits);
    if (!(sum > best)) return;
    best = sum;
    chosen = static_cast<int32_t>(i);
    bits_per_weight = std::exp(-best) * 0x1p32 * kSlack;
  };
  const size_t count = values.size();
  for (size_t first = 0; first < count; first += kTokensPerBlock) {
    const size_t end = std::min(first + kTokensPerBlock, count);
    bool any = false;
    for (size_t i = first; i < end; ++i) any = any || values[i] >= cut.least;
    if (!any) continue;
    const auto bits =
        place.block(static_cast<uint32_t>(first / kTokensPerBlock), DrawPlace::Half::kFirst);
    for (size_t i = first; i < end; ++i) {
      if (!cut.keeps(values[i], static_cast<int32_t>(i)) || !std::isfinite(values[i])) continue;
      const uint32_t first_bits = bits[i - first];
      if (chosen >= 0 && first_bits != 0 && first_bits > weights[i] * bits_per_weight) continue;
      try_token(i, first_bits);
    }
  }
  return chosen;
}

}  // namespace tessera::serve
