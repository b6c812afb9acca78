#include "base/philox.h"

#include <cmath>
#include <numbers>

namespace tessera {
namespace {

constexpr double kTwoToMinus53 = 0x1p-53;

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

std::array<uint32_t, 4> draw(uint64_t seed, uint64_t stream, uint64_t index) {
  return philox({low(index), high(index), low(stream), high(stream)}, {low(seed), high(seed)});
}

// The upper 53 of the 64 bits.
uint64_t bits53(uint32_t upper, uint32_t lower) {
  return ((static_cast<uint64_t>(upper) << 32) | lower) >> 11;
}

}  // namespace

double uniform_at(uint64_t seed, uint64_t stream, uint64_t index) {
  const auto words = draw(seed, stream, index);
  return static_cast<double>(bits53(words[0], words[1])) * kTwoToMinus53;
}

double normal_at(uint64_t seed, uint64_t stream, uint64_t index) {
  const auto words = draw(seed, stream, index);
  // (0, 1], so that the logarithm is finite.
  const double radius_draw = static_cast<double>(bits53(words[0], words[1]) + 1) * kTwoToMinus53;
  const double angle_draw = static_cast<double>(bits53(words[2], words[3])) * kTwoToMinus53;
  return std::sqrt(-2.0 * std::log(radius_draw)) * std::cos(2.0 * std::numbers::pi * angle_draw);
}

}  // namespace tessera
