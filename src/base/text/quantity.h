// Numbers with units, as people write and read them. GB is 10^9 bytes and GiB is 2^30; Gb are bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

enum class Unit : uint8_t {
  kCount,           // 70B, 15T
  kLength,          // of a sequence, by powers of two: 8k
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

// What "k" and "M" stand for. Lengths of sequences go by powers of two, as everybody says them: 8k
// is 8,192 tokens. Everything else that is counted goes by tens: 15T are 15e12.
enum class Thousand : uint8_t { kDecimal, kBinary };

// A whole number as people write it: 8192, 8k, 1.5M, 1e3, 15T, and 4Mi for 4 x 2^20. Nothing for
// what is no number, has a fraction, or does not fit an int64_t.
std::optional<int64_t> parse_count(std::string_view text, Thousand k = Thousand::kDecimal);

// The tokens of "4Mtok", "4Mi tok" or "2000000 tokens"; nothing for a text that does not end so.
std::optional<int64_t> parse_tokens(std::string_view text);
// The number as a whole one, where it is: 1e3 of a TOML file is 1000.
std::optional<int64_t> whole_number(double value);

}  // namespace tessera
