#include "base/text/quantity.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/text/parse_real.h"
#include "base/text/text.h"

namespace tessera {
namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

constexpr Suffix kCounts[] = {{"", 1},        {"k", 1e3},     {"K", 1e3},     {"M", 1e6},
                              {"B", 1e9},     {"G", 1e9},     {"T", 1e12},    {"ki", 0x1p10},
                              {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
constexpr Suffix kLengths[] = {{"", 1},        {"k", 0x1p10},  {"K", 0x1p10},
                               {"M", 0x1p20},  {"G", 0x1p30},  {"ki", 0x1p10},
                               {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}};
constexpr Suffix kBytes[] = {{"", 1},         {"B", 1},        {"kB", 1e3},     {"KB", 1e3},
                             {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {"PB", 1e15},
                             {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
constexpr Suffix kRates[] = {{"", 1},
                             {"B/s", 1},
                             {"kB/s", 1e3},
                             {"MB/s", 1e6},
                             {"GB/s", 1e9},
                             {"TB/s", 1e12},
                             {"MiB/s", 0x1p20},
                             {"GiB/s", 0x1p30},
                             {"Mb/s", 1e6 / 8},
                             {"Gb/s", 1e9 / 8},
                             {"Tb/s", 1e12 / 8},
                             {"Mbps", 1e6 / 8},
                             {"Gbps", 1e9 / 8},
                             {"Tbps", 1e12 / 8},
                             {"Mbit/s", 1e6 / 8},
                             {"Gbit/s", 1e9 / 8},
                             {"Tbit/s", 1e12 / 8}};
constexpr double kDay = 86400, kYear = 365.25 * kDay;
constexpr Suffix kSeconds[] = {{"", 1},         {"s", 1},       {"ms", 1e-3}, {"us", 1e-6},
                               {"ns", 1e-9},    {"min", 60},    {"h", 3600},  {"d", kDay},
                               {"day", kDay},   {"days", kDay}, {"y", kYear}, {"year", kYear},
                               {"years", kYear}};
constexpr Suffix kFlopRates[] = {{"", 1},           {"T", 1e12},       {"P", 1e15},
                                 {"E", 1e18},       {"FLOP/s", 1},     {"GFLOP/s", 1e9},
                                 {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}, {"EFLOP/s", 1e18}};
constexpr Suffix kFlops[] = {
    {"", 1}, {"FLOP", 1}, {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}};
constexpr Suffix kShares[] = {{"", 1}, {"%", 0.01}};
constexpr Suffix kPlain[] = {{"", 1}};

// How a unit is read, and which steps it is shown in.
struct Reading {
  std::span<const Suffix> suffixes;
  std::string_view expected;
};

Reading reading_of(Unit unit) {
  switch (unit) {
    case Unit::kCount:
      return {kCounts, "a count, such as 70B or 1.5T"};
    case Unit::kLength:
      return {kLengths, "tokens of a sequence, such as 4096 or 8k"};
    case Unit::kBytes:
      return {kBytes, "bytes, such as 80GB or 25MiB"};
    case Unit::kBytesPerSecond:
      return {kRates, "a bandwidth, such as 25GB/s, or 400Gbps for bits"};
    case Unit::kSeconds:
      return {kSeconds, "a time, such as 10us or 1.5s"};
    case Unit::kFlops:
      return {kFlops, "FLOPs, such as 3e23"};
    case Unit::kFlopsPerSecond:
      return {kFlopRates, "a rate, such as 989TFLOP/s"};
    case Unit::kShare:
      return {kShares, "a share, such as 40% or 0.4"};
    case Unit::kNumber:
    case Unit::kFlopsPerByte:
    case Unit::kDollars:
      break;
  }
  return {kPlain, "a number, such as 2.5"};
}

struct Scale {
  double factor;
  std::string_view name;
};

constexpr Scale kByteScales[] = {{1e18, "EB"}, {1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"},
                                 {1e6, "MB"},  {1e3, "kB"},  {1, "B"}};
constexpr Scale kCountScales[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}};
constexpr Scale kTimeScales[] = {{kYear, "years"}, {kDay, "days"}, {3600, "h"}, {1, "s"},
                                 {1e-3, "ms"},     {1e-6, "us"},   {1e-9, "ns"}};
constexpr Scale kFlopScales[] = {{1e18, "E"}, {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}};

// The largest scale that leaves at least 1 (within rounding), or nothing.
const Scale* scale_for(double value, std::span<const Scale> scales) {
  for (const Scale& scale : scales) {
    if (std::abs(value) >= scale.factor * 0.99995) return &scale;
  }
  return nullptr;
}

std::string scaled(double value, std::span<const Scale> scales, std::string_view suffix) {
  const Scale* scale = scale_for(value, scales);
  if (scale == nullptr) return fmt::format("{:.4g} {}", value, suffix);
  return fmt::format("{:.4g} {}{}", value / scale->factor, scale->name, suffix);
}

std::string plain(double value) {
  const bool whole =
      std::abs(value) < 1e15 && value == static_cast<double>(static_cast<int64_t>(value));
  return whole ? with_thousands(static_cast<int64_t>(value)) : fmt::format("{:.5g}", value);
}

std::string count_text(double value) {
  if (std::abs(value) < 1e6) return plain(value);
  const Scale* scale = scale_for(value, kCountScales);
  return fmt::format("{:.4g}{}", value / scale->factor, scale->name);
}

// The number that `text` begins with, in the unit that it ends with.
std::optional<double> number_with(std::span<const Suffix> suffixes, std::string_view text) {
  const std::string_view whole = trim(text);
  const std::optional<ParsedReal> number = parse_real(whole);
  if (!number.has_value() || !std::isfinite(number->value)) return std::nullopt;
  const std::string_view suffix = trim(whole.substr(number->length));
  for (const Suffix& known : suffixes) {
    if (known.text == suffix) return number->value * known.factor + 0.0;  // -0 becomes 0
  }
  return std::nullopt;
}

std::string trimmed(std::string text) {
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

// "1.5 h", "30 days"; but "1 day"
std::string time_text(double seconds) {
  std::string text = trimmed(scaled(seconds, kTimeScales, seconds == 0 ? "s" : ""));
  if (text == "1 days" || text == "1 years") text.pop_back();
  return text;
}

}  // namespace

std::string_view name_of(Unit unit) {
  switch (unit) {
    case Unit::kCount:
    case Unit::kLength:
      return "count";
    case Unit::kBytes:
      return "bytes";
    case Unit::kBytesPerSecond:
      return "bytes/s";
    case Unit::kSeconds:
      return "s";
    case Unit::kFlops:
      return "FLOP";
    case Unit::kFlopsPerSecond:
      return "FLOP/s";
    case Unit::kShare:
      return "share";
    case Unit::kNumber:
      return "number";
    case Unit::kFlopsPerByte:
      return "FLOP/byte";
    case Unit::kDollars:
      return "dollars";
  }
  return "";
}

std::string text_of(const Quantity& quantity) {
  const double value = quantity.value;
  switch (quantity.unit) {
    case Unit::kCount:
    case Unit::kLength:
      return count_text(value);
    case Unit::kBytes:
      return scaled(value, kByteScales, value == 0 ? "B" : "");
    case Unit::kBytesPerSecond:
      return scaled(value, kByteScales, "/s");
    case Unit::kSeconds:
      return time_text(value);
    case Unit::kFlops:
      return fmt::format("{:.4g} FLOP", value);
    case Unit::kFlopsPerSecond:
      return scaled(value, kFlopScales, "FLOP/s");
    case Unit::kShare:
      return fmt::format("{:.4g} %", 100 * value);
    case Unit::kNumber:
      return plain(value);
    case Unit::kFlopsPerByte:
      return fmt::format("{:.4g} FLOP/byte", value);
    case Unit::kDollars:
      return value >= 1e6 ? "$" + count_text(value) : fmt::format("${:.4g}", value);
  }
  return "";
}

double parse_quantity(Unit unit, std::string_view text, std::string_view what) {
  const Reading reading = reading_of(unit);
  if (const std::optional<double> value = number_with(reading.suffixes, text)) return *value;
  throw ConfigError(fmt::format("{} is {}: expected {}", what, in_quotes(text), reading.expected));
}

std::optional<int64_t> whole_number(double value) {
  constexpr double kMost = 9e18;  // an int64_t holds it
  const double whole = std::nearbyint(value);
  // The last bits of 4.1M are a product's.
  const bool close =
      std::abs(value - whole) <= 4 * std::numeric_limits<double>::epsilon() * std::abs(value);
  if (!close || !(std::abs(whole) <= kMost)) return std::nullopt;
  return static_cast<int64_t>(whole);
}

std::optional<int64_t> parse_count(std::string_view text, Thousand k) {
  const std::string_view digits = trim(text);
  int64_t exact = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, exact);
  if (error == std::errc() && stop == end) return exact;
  const std::span<const Suffix> suffixes =
      k == Thousand::kBinary ? std::span<const Suffix>(kLengths) : std::span<const Suffix>(kCounts);
  const std::optional<double> value = number_with(suffixes, digits);
  return value.has_value() ? whole_number(*value) : std::nullopt;
}

std::optional<int64_t> parse_tokens(std::string_view text) {
  std::string_view rest = trim(text);
  for (const std::string_view word : {"tokens", "token", "toks", "tok"}) {
    if (!rest.ends_with(word)) continue;
    rest.remove_suffix(word.size());
    return parse_count(rest);
  }
  return std::nullopt;
}

}  // namespace tessera
