#include "runtime/rope_table.h"

#include <cmath>
#include <numbers>

namespace tessera {

std::vector<double> rope_frequencies(const RopeSpec& rope, int64_t head_dim) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_dim; i += 2) {
    const double f = std::pow(rope.theta, -static_cast<double>(i) / static_cast<double>(head_dim));
    if (rope.scaling != RopeScaling::kLlama3) {
      frequencies.push_back(f);
      continue;
    }
    // Long waves are slowed by `factor`, short ones kept, those between blended.
    const auto original = static_cast<double>(rope.original_max_position);
    const double low = rope.low_freq_factor;
    const double high = rope.high_freq_factor;
    const double wavelength = 2 * std::numbers::pi / f;
    if (wavelength > original / low) {
      frequencies.push_back(f / rope.factor);
    } else if (wavelength < original / high) {
      frequencies.push_back(f);
    } else {
      const double keep = (original / wavelength - low) / (high - low);
      frequencies.push_back((1 - keep) * f / rope.factor + keep * f);
    }
  }
  return frequencies;
}

}  // namespace tessera
