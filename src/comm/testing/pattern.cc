#include "comm/testing/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "tensor/element.h"

namespace tessera::testing {
namespace {

// How elements of T are computed with.
template <typename T>
struct Arithmetic {
  using Wide = T;
};
template <>
struct Arithmetic<BFloat16> {
  using Wide = float;
};
template <>
struct Arithmetic<Float16> {
  using Wide = float;
};

template <typename F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kF64:
      return f(double{});
    case DType::kF32:
      return f(float{});
    case DType::kBF16:
      return f(BFloat16{});
    case DType::kF16:
      return f(Float16{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU8:
      return f(uint8_t{});
  }
}

uint64_t scramble(int64_t index, int rank) {
  uint64_t h = static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15U + static_cast<uint64_t>(rank + 1);
  h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9U;
  h = (h ^ (h >> 32)) * 0x94D049BB133111EBU;
  return h ^ (h >> 31);
}

template <typename T>
T plain_value(uint64_t random) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random);
  } else {
    const double magnitude = static_cast<double>(1U << (random % 20)) / 1024.0;
    const double value = (static_cast<double>(random >> 40) / 16777216.0 - 0.5) * magnitude;
    return static_cast<T>(
        static_cast<typename Arithmetic<T>::Wide>(random % 97 == 0 ? -0.0 : value));
  }
}

// Largest and smallest numbers of the type, so that sums overflow to infinity and underflow.
template <typename T>
T special_value(uint64_t random) {
  if constexpr (std::is_integral_v<T>) {
    constexpr T kValues[] = {0, 1, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
    return kValues[random % 4];
  } else {
    using Wide = typename Arithmetic<T>::Wide;
    constexpr Wide kInfinity = std::numeric_limits<Wide>::infinity();
    Wide largest = std::numeric_limits<Wide>::max();
    Wide smallest = std::numeric_limits<Wide>::denorm_min();
    if (std::is_same_v<T, Float16>) largest = Wide(65504), smallest = Wide(0x1p-24);
    if (std::is_same_v<T, BFloat16>) largest = Wide(0x1.FEp127), smallest = Wide(0x1p-133);
    const Wide values[] = {std::numeric_limits<Wide>::quiet_NaN(),
                           kInfinity,
                           -kInfinity,
                           Wide(0),
                           -Wide(0),
                           largest,
                           -largest,
                           smallest,
                           -smallest,
                           Wide(1),
                           Wide(-1)};
    // Mostly zeros and ones: a NaN in every sum would hide the rest.
    constexpr size_t kNumValues = std::size(values);
    return static_cast<T>(
        values[random % 4 == 0 ? (random >> 8) % kNumValues : 3 + (random >> 8) % 2]);
  }
}

template <typename Wide>
Wide combine(ReduceOp op, Wide a, Wide b) {
  if (op == ReduceOp::kMax) return a >= b || a != a ? a : b;
  if (op == ReduceOp::kMin) return a <= b || a != a ? a : b;
  if constexpr (std::is_integral_v<Wide>) {
    using Unsigned = std::make_unsigned_t<Wide>;
    return static_cast<Wide>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

double read(DType dtype, const std::byte* element) {
  // Elements in buffers of the suite are aligned for their type.
  return read_element(Tensor(const_cast<std::byte*>(element), dtype, {1}), 0);
}

double rounding_unit(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF32:
      return 0x1p-24;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    default:
      return 0;
  }
}

}  // namespace

Pattern::Pattern(DType dtype)
    : dtype_(dtype), bytes_(static_cast<size_t>(kPatternPeriod * size_bytes(dtype))) {}

const std::byte* Pattern::element(int64_t index) const {
  return bytes_.data() + index % kPatternPeriod * size_bytes(dtype_);
}

double Pattern::value(int64_t index) const { return read(dtype_, element(index)); }

Pattern Pattern::contribution(DType dtype, ValueKind kind, int world_rank) {
  Pattern pattern(dtype);
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    T* values = reinterpret_cast<T*>(pattern.bytes_.data());
    for (int64_t i = 0; i < kPatternPeriod; ++i) {
      const uint64_t random = scramble(i, world_rank);
      values[i] = kind == ValueKind::kPlain ? plain_value<T>(random) : special_value<T>(random);
    }
  });
  return pattern;
}

Pattern Pattern::reduction(ReduceOp op, std::span<const Pattern* const> terms) {
  const DType dtype = terms[0]->dtype_;
  if (terms.size() == 1) return *terms[0];  // the very bits
  Pattern result(dtype);
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    using Wide = typename Arithmetic<T>::Wide;
    for (int64_t i = 0; i < kPatternPeriod; ++i) {
      const auto term = [&](size_t t) {
        return static_cast<Wide>(*reinterpret_cast<const T*>(terms[t]->element(i)));
      };
      Wide value = term(0);
      for (size_t t = 1; t < terms.size(); ++t) value = combine(op, value, term(t));
      if (op == ReduceOp::kMean) value = static_cast<Wide>(value / static_cast<Wide>(terms.size()));
      reinterpret_cast<T*>(result.bytes_.data())[i] = static_cast<T>(value);
    }
  });
  return result;
}

void Pattern::fill(std::byte* to, int64_t begin, int64_t count) const {
  const int64_t width = size_bytes(dtype_);
  for (int64_t done = 0; done < count;) {
    const int64_t block = std::min(count - done, kPatternPeriod - (begin + done) % kPatternPeriod);
    std::memcpy(to + done * width, element(begin + done), static_cast<size_t>(block * width));
    done += block;
  }
}

int64_t Pattern::first_difference(const std::byte* actual, int64_t begin, int64_t count) const {
  const int64_t width = size_bytes(dtype_);
  const auto same_bits = [&](int64_t at, int64_t block) {
    return std::memcmp(actual + at * width, element(begin + at),
                       static_cast<size_t>(block * width)) == 0;
  };
  const auto both_nan = [&](int64_t at) {
    return is_floating(dtype_) && std::isnan(value(begin + at)) &&
           std::isnan(read(dtype_, actual + at * width));
  };
  for (int64_t done = 0; done < count;) {
    const int64_t block = std::min(count - done, kPatternPeriod - (begin + done) % kPatternPeriod);
    if (!same_bits(done, block)) {
      for (int64_t at = done; at < done + block; ++at) {
        if (!same_bits(at, 1) && !both_nan(at)) return at;
      }
    }
    done += block;
  }
  return -1;
}

int64_t Pattern::first_beyond(const std::byte* actual, int64_t begin, int64_t count,
                              std::span<const double> bounds) const {
  for (int64_t i = 0; i < count; ++i) {
    const double off = read(dtype_, actual + i * size_bytes(dtype_)) - value(begin + i);
    const double bound = bounds[static_cast<size_t>((begin + i) % kPatternPeriod)];
    if (!(std::abs(off) <= bound)) return i;
  }
  return -1;
}

std::vector<double> reordering_bounds(std::span<const Pattern* const> terms) {
  std::vector<double> bounds(static_cast<size_t>(kPatternPeriod));
  const double unit = rounding_unit(terms[0]->dtype());
  for (size_t i = 0; i < bounds.size(); ++i) {
    double magnitude = 0;
    for (const Pattern* term : terms) magnitude += std::abs(term->value(static_cast<int64_t>(i)));
    bounds[i] = 2 * unit * static_cast<double>(terms.size()) * magnitude;
  }
  return bounds;
}

}  // namespace tessera::testing
