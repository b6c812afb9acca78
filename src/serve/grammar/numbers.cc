#include "serve/grammar/numbers.h"

#include <algorithm>
#include <charconv>
#include <compare>

namespace tessera::serve::grammar {
namespace {

constexpr int kMostExponentDigits = 2;

// Bounds of a magnitude: of the digits behind a sign, or without one.
struct Magnitudes {
  bool any = true;  // false: no number has this sign
  std::optional<Bound> low, high;
};

bool is_zero(const Decimal& value) { return value.whole.empty() && value.fraction.empty(); }

Magnitudes with_sign(const NumberRange& range, bool negative) {
  // Seen from below zero, the higher bound is the lower one.
  const std::optional<Bound>& near = negative ? range.high : range.low;
  const std::optional<Bound>& far = negative ? range.low : range.high;
  Magnitudes made;
  if (near && (near->value.negative == negative || is_zero(near->value))) made.low = near;
  if (far && is_zero(far->value)) {
    made.high = far;
  } else if (far && far->value.negative == negative) {
    made.high = far;
  } else if (far) {
    made.any = false;
  }
  return made;
}

enum class Phase : uint8_t {
  kStart,
  kSign,
  kZero,
  kWhole,
  kPoint,
  kFraction,
  kE,
  kESign,
  kExponent
};

// What of a number has been read. `low` and `high` say how its digits compare to those of the
// bound.
struct Seen {
  Phase phase = Phase::kStart;
  bool negative = false;
  int whole = 0, fraction = 0, exponent = 0;  // digits
  int low = 0, high = 0;
  auto operator<=>(const Seen&) const = default;
};

class NumberMachine {
 public:
  NumberMachine(const NumberRange& range, int most_whole, int most_digits, bool whole_only)
      : below_(with_sign(range, true)),
        above_(with_sign(range, false)),
        most_whole_(most_whole),
        most_digits_(most_digits),
        whole_only_(whole_only),
        has_bounds_(range.low || range.high) {}

  [[nodiscard]] std::optional<Seen> next(const Seen& seen, uint8_t byte) const {
    const bool digit = byte >= '0' && byte <= '9';
    switch (seen.phase) {
      case Phase::kStart:
        if (byte != '-') return digit && above_.any ? first_digit(seen, byte) : std::nullopt;
        if (!below_.any) return std::nullopt;
        return moved(seen, Phase::kSign, true);
      case Phase::kSign:
        return digit ? first_digit(seen, byte) : std::nullopt;
      case Phase::kZero:
        return after_whole(seen, byte);
      case Phase::kWhole:
        return digit ? whole_digit(seen, byte) : after_whole(seen, byte);
      case Phase::kPoint:
      case Phase::kFraction:
        return digit ? fraction_digit(seen, byte) : exponent_mark(seen, byte);
      default:
        return exponent_part(seen, byte);
    }
  }

  [[nodiscard]] bool is_final(const Seen& seen) const {
    if (seen.phase == Phase::kExponent) return true;
    if (seen.phase != Phase::kZero && seen.phase != Phase::kWhole &&
        seen.phase != Phase::kFraction) {
      return false;
    }
    if (whole_only_ && seen.negative && seen.phase == Phase::kZero) return false;
    const Magnitudes& bounds = seen.negative ? below_ : above_;
    return holds(bounds.low, seen, seen.low, 1) && holds(bounds.high, seen, seen.high, -1);
  }

 private:
  static Seen moved(Seen seen, Phase phase, bool negative) {
    seen.phase = phase;
    seen.negative = negative;
    return seen;
  }
  [[nodiscard]] const Magnitudes& bounds_of(const Seen& seen) const {
    return seen.negative ? below_ : above_;
  }

  // The sign of (digits read) - (as many of the bound), once one more has been read.
  static int compared(int before, const std::optional<Bound>& bound, bool fraction, int at,
                      uint8_t byte) {
    if (!bound || before != 0) return before;
    const std::string& digits = fraction ? bound->value.fraction : bound->value.whole;
    const bool inside = at < static_cast<int>(digits.size());
    if (!fraction && !inside) return 1;
    const int other = inside ? digits[static_cast<size_t>(at)] : '0';
    return byte < other ? -1 : byte > other ? 1 : 0;
  }
  // The same for the whole part once it has ended.
  static int ended(int before, const std::optional<Bound>& bound, int digits) {
    if (!bound) return 0;
    const int other = static_cast<int>(bound->value.whole.size());
    return digits < other ? -1 : digits > other ? 1 : before;
  }
  static bool holds(const std::optional<Bound>& bound, const Seen& seen, int compared, int wanted) {
    if (!bound) return true;
    const bool in_fraction = seen.phase == Phase::kFraction;
    int sign = in_fraction ? compared : ended(compared, bound, seen.whole);
    const int fraction = in_fraction ? seen.fraction : 0;
    if (sign == 0 && fraction < static_cast<int>(bound->value.fraction.size())) sign = -1;
    return sign == wanted || (sign == 0 && bound->inclusive);
  }

  [[nodiscard]] std::optional<Seen> first_digit(Seen seen, uint8_t byte) const {
    if (byte == '0') {
      seen.phase = Phase::kZero;
      return seen;
    }
    seen.phase = Phase::kWhole;
    return whole_digit(seen, byte);
  }
  [[nodiscard]] std::optional<Seen> whole_digit(Seen seen, uint8_t byte) const {
    if (seen.whole == most_whole_) return std::nullopt;
    const Magnitudes& bounds = bounds_of(seen);
    seen.low = compared(seen.low, bounds.low, false, seen.whole, byte);
    seen.high = compared(seen.high, bounds.high, false, seen.whole, byte);
    ++seen.whole;
    return seen;
  }
  [[nodiscard]] std::optional<Seen> after_whole(Seen seen, uint8_t byte) const {
    if (whole_only_) return std::nullopt;
    if (byte != '.') return exponent_mark(seen, byte);
    const Magnitudes& bounds = bounds_of(seen);
    seen.low = ended(seen.low, bounds.low, seen.whole);
    seen.high = ended(seen.high, bounds.high, seen.whole);
    seen.phase = Phase::kPoint;
    return seen;
  }
  [[nodiscard]] std::optional<Seen> fraction_digit(Seen seen, uint8_t byte) const {
    if (std::max(seen.whole, 1) + seen.fraction >= most_digits_) return std::nullopt;
    const Magnitudes& bounds = bounds_of(seen);
    seen.low = compared(seen.low, bounds.low, true, seen.fraction, byte);
    seen.high = compared(seen.high, bounds.high, true, seen.fraction, byte);
    ++seen.fraction;
    seen.phase = Phase::kFraction;
    return seen;
  }
  [[nodiscard]] std::optional<Seen> exponent_mark(const Seen& seen, uint8_t byte) const {
    if (has_bounds_ || seen.phase == Phase::kPoint || (byte != 'e' && byte != 'E')) {
      return std::nullopt;
    }
    return Seen{.phase = Phase::kE};
  }
  [[nodiscard]] static std::optional<Seen> exponent_part(Seen seen, uint8_t byte) {
    if (byte >= '0' && byte <= '9') {
      if (seen.exponent == kMostExponentDigits) return std::nullopt;
      seen.phase = Phase::kExponent;
      ++seen.exponent;
      return seen;
    }
    if (seen.phase != Phase::kE || (byte != '+' && byte != '-')) return std::nullopt;
    seen.phase = Phase::kESign;
    return seen;
  }

  Magnitudes below_, above_;
  int most_whole_;
  int most_digits_;
  bool whole_only_;
  bool has_bounds_;
};

Dfa explored(const NumberMachine& machine, Budget& budget) {
  return explore(
      Seen{}, [&](const Seen& seen, uint8_t byte) { return machine.next(seen, byte); },
      [&](const Seen& seen) { return machine.is_final(seen); }, budget);
}

}  // namespace

int compare_decimals(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int sign = a.negative ? -1 : 1;
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -sign : sign;
  const int whole = a.whole.compare(b.whole);
  const int order = whole != 0 ? whole : a.fraction.compare(b.fraction);
  return order < 0 ? -sign : order > 0 ? sign : 0;
}

std::optional<Decimal> decimal_of(std::string_view json) {
  constexpr int64_t kMost = 40;
  Decimal made;
  if (json.starts_with('-')) {
    made.negative = true;
    json.remove_prefix(1);
  }
  const size_t e = std::min(json.find_first_of("eE"), json.size());
  int64_t shift = 0;
  if (e < json.size()) {
    std::string_view digits = json.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), shift).ec != std::errc()) {
      return std::nullopt;
    }
  }
  if (shift > kMost || shift < -kMost) return std::nullopt;
  const size_t point = std::min(json.find('.'), e);
  std::string digits(json.substr(0, point));
  int64_t whole = static_cast<int64_t>(digits.size()) + shift;
  if (point < e) digits += json.substr(point + 1, e - point - 1);
  while (whole > static_cast<int64_t>(digits.size())) digits += '0';
  for (; whole < 0; ++whole) digits.insert(0, 1, '0');
  made.whole = digits.substr(0, static_cast<size_t>(whole));
  made.fraction = digits.substr(static_cast<size_t>(whole));
  made.whole.erase(0, std::min(made.whole.find_first_not_of('0'), made.whole.size()));
  made.fraction.erase(made.fraction.find_last_not_of('0') + 1);
  if (is_zero(made)) made.negative = false;
  if (made.whole.size() + made.fraction.size() > static_cast<size_t>(kMost)) return std::nullopt;
  return made;
}

Dfa integers(const NumberRange& range, Budget& budget) {
  NumberRange within = range;
  const Bound least = {{.negative = true, .whole = "9223372036854775808", .fraction = ""}};
  const Bound most = {{.negative = false, .whole = "9223372036854775807", .fraction = ""}};
  if (!within.low || compare_decimals(within.low->value, least.value) < 0) within.low = least;
  if (!within.high || compare_decimals(within.high->value, most.value) > 0) within.high = most;
  constexpr int kDigitsOfInt64 = 19;
  return explored(NumberMachine(within, kDigitsOfInt64, kDigitsOfInt64, true), budget);
}

Dfa numbers(const NumberRange& range, Budget& budget) {
  return explored(NumberMachine(range, kMostDigits, kMostDigits, false), budget);
}

}  // namespace tessera::serve::grammar
