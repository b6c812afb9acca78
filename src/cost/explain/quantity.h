// Numbers with units, as people write and read them. GB is 10^9 bytes and GiB is 2^30; Gb are bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class Unit : uint8_t {
  kCount,           // 70B, 15T
  kBytes,           // 140GB, 25MiB
  kBytesPerSecond,  // 25GB/s, 400Gb/s
  kSeconds,         // 10us
  kFlops,
  kFlopsPerSecond,  // 989TFLOP/s, or 989T
  kShare,           // 40%, or 0.4
  kNumber,          // as it is
  kFlopsPerByte,
  kDollars,
};

struct Quantity {
  double value = 0;
  Unit unit = Unit::kNumber;
};

// "bytes", "bytes/s", "s", ...: what JSON says.
std::string_view name_of(Unit unit);

// Four digits: "1.12 TB", "10.85 s", "42.86 %".
std::string text_of(const Quantity& quantity);

// The number that `text` stands for. Throws ConfigError "WHAT is 'TEXT': expected ..., such as
// ...".
double parse_quantity(Unit unit, std::string_view text, std::string_view what);

}  // namespace tessera
