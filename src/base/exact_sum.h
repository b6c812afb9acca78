// Sums of non-negative numbers without rounding, so that neither the order of additions nor who
// makes them matters. The sum is a fixed-point number of 32-bit digits; digits of several sums can
// be added as f64, which holds them exactly.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace tessera {

class ExactSum {
 public:
  // Digit i counts 2^(32 i - 320). Squares of all f32 numbers fit, and 2^24 times as many of them
  // as there can be elements.
  static constexpr int kDigits = 20;
  static constexpr int kLowest = -320;

  // Numbers below 2^-268 count as zero, what is not finite or above 2^276 makes the sum not a
  // number. At most 2^31 numbers before normalize().
  void add(double number) {
    const auto bits = std::bit_cast<uint64_t>(number);
    const auto exponent = static_cast<int>(bits >> 52);  // no sign: it is not negative
    const int place = exponent - 1075 - kLowest;         // of the last bit of the mantissa
    if (place < 0) return;
    if (place > kHighestPlace) {
      finite_ = false;
      return;
    }
    const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
    const unsigned shift = static_cast<unsigned>(place) % 32;
    const auto digit = static_cast<size_t>(place / 32);
    const uint64_t low = (mantissa << shift) & kMask;
    const uint64_t high = mantissa >> (32 - shift);  // shift is below 32
    digits_[digit] += low;
    digits_[digit + 1] += high & kMask;
    digits_[digit + 2] += high >> 32;
  }

  // Every digit below 2^32.
  void normalize() {
    uint64_t carry = 0;
    for (uint64_t& digit : digits_) {
      digit += carry;
      carry = digit >> 32;
      digit &= kMask;
    }
  }

  void add(const ExactSum& other) {
    for (size_t i = 0; i < digits_.size(); ++i) digits_[i] += other.digits_[i];
    finite_ = finite_ && other.finite_;
    normalize();
  }

  // Adds to `numbers`, kDigits of them, which sum up over ranks.
  void add_to(double* numbers) const {
    for (size_t i = 0; i < digits_.size(); ++i) numbers[i] += static_cast<double>(digits_[i]);
    if (!finite_) numbers[0] = std::numeric_limits<double>::quiet_NaN();
  }

  // The sum that add_to() has put there, of any number of ranks below 2^20.
  static double value_of(const double* numbers) {
    ExactSum sum;
    for (size_t i = 0; i < sum.digits_.size(); ++i) {
      if (!std::isfinite(numbers[i])) return std::numeric_limits<double>::quiet_NaN();
      sum.digits_[i] = static_cast<uint64_t>(numbers[i]);
    }
    sum.normalize();
    double value = 0;
    for (size_t i = sum.digits_.size(); i > 0; --i) {
      value += std::ldexp(static_cast<double>(sum.digits_[i - 1]),
                          32 * static_cast<int>(i - 1) + kLowest);
    }
    return value;
  }

 private:
  static constexpr uint64_t kMask = 0xffffffff;
  static constexpr int kHighestPlace = 32 * (kDigits - 3) - 1;

  std::array<uint64_t, kDigits> digits_{};
  bool finite_ = true;
};

}  // namespace tessera
