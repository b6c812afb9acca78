// Floating-point formats bit by bit: what a number becomes when it is stored in one, and which
// numbers lie beside it. By definition, one number at a time; BFloat16 and Float16 (dtype.h) are
// what arrays are converted with. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

struct NumberFormat {
  std::string_view name;
  int exponent_bits = 8;
  int mantissa_bits = 23;
  // The largest exponent means infinity and NaN. Otherwise (E4M3) it is one like the others, but
  // for the largest mantissa, which is NaN, and what is too large becomes that.
  bool has_infinity = true;

  [[nodiscard]] int bits() const { return 1 + exponent_bits + mantissa_bits; }
  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] double largest() const;
  [[nodiscard]] double smallest_normal() const;
  [[nodiscard]] double smallest_subnormal() const;
};

// f32, bf16, f16, fp8_e4m3, fp8_e5m2.
std::span<const NumberFormat> number_formats();

// The bits of `value` rounded to nearest, to the even one of two that are equally near. Lies in the
// lowest bits() bits, the sign on top.
uint32_t encode(const NumberFormat& format, double value);
// Infinity and NaN among them.
double decode(const NumberFormat& format, uint32_t bits);

// The numbers beside the one that `bits` stands for, which is finite; infinite or NaN beyond the
// largest.
double next_above(const NumberFormat& format, uint32_t bits);
double next_below(const NumberFormat& format, uint32_t bits);

// "0", "01111011", "10011001100110011001101": the fields of `bits` as digits.
struct BitFields {
  std::string sign, exponent, mantissa;
};
BitFields fields_of(const NumberFormat& format, uint32_t bits);

}  // namespace tessera
