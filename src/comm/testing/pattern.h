// What the buffers of the suite hold. The values of a rank repeat every kPatternPeriod elements, so
// any reduction of them does too: expectations are computed once and compared block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "collective/op.h"

namespace tessera::testing {

// Prime, so that no slice or chunk is a multiple of it, and longer than the middle sizes.
constexpr int64_t kPatternPeriod = 4099;

enum class ValueKind : uint8_t {
  kPlain,    // many magnitudes and both signs: the order of a sum shows in its bits
  kSpecial,  // NaN, infinities, both zeros, the largest and the smallest numbers
};

constexpr bool is_floating(DType dtype) {
  return dtype != DType::kI32 && dtype != DType::kI64 && dtype != DType::kU8;
}

class Pattern {
 public:
  // What `world_rank` contributes.
  static Pattern contribution(DType dtype, ValueKind kind, int world_rank);
  // The reduction of `terms` in that order, element by element: the definition that communicators
  // are held to.
  static Pattern reduction(ReduceOp op, std::span<const Pattern* const> terms);

  [[nodiscard]] DType dtype() const { return dtype_; }

  // Stores elements [begin, begin + count).
  void fill(std::byte* to, int64_t begin, int64_t count) const;

  // The first of `count` elements that is not bit for bit element begin + i, or -1. All NaN are
  // the same: which one an addition of two keeps is up to the machine.
  [[nodiscard]] int64_t first_difference(const std::byte* actual, int64_t begin,
                                         int64_t count) const;

  // The same for sums in another order: an element may be off by bounds[index % period].
  [[nodiscard]] int64_t first_beyond(const std::byte* actual, int64_t begin, int64_t count,
                                     std::span<const double> bounds) const;

  [[nodiscard]] double value(int64_t index) const;

 private:
  explicit Pattern(DType dtype);
  [[nodiscard]] const std::byte* element(int64_t index) const;

  DType dtype_;
  std::vector<std::byte> bytes_;
};

// How far a sum or mean of `terms` in any order, rounded after every addition, may be from any
// other: by element of the period.
std::vector<double> reordering_bounds(std::span<const Pattern* const> terms);

}  // namespace tessera::testing
