#include "base/philox.h"

#include <cmath>
#include <numbers>

namespace tessera {
namespace {

constexpr int kRounds = 10;
constexpr uint64_t kMultiplier0 = 0xD2511F53;
constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
// Weyl increments of the key: the golden ratio and sqrt(3) - 1.
constexpr uint32_t kKeyStep0 = 0x9E3779B9;
constexpr uint32_t kKeyStep1 = 0xBB67AE85;
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

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1),
               high(product0) ^ counter[3] ^ key[1], low(product0)};
    key[0] += kKeyStep0;
    key[1] += kKeyStep1;
  }
  return counter;
}

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
