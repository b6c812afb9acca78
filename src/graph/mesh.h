// The grid of ranks. Rank numbers run over the axes with the last axis (tp) fastest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/placement.h"

namespace tessera {

// A set of axes: the groups that a collective runs over.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  // Implicit: one axis is a set.
  constexpr AxisSet(Axis axis) : bits_(static_cast<uint8_t>(1U << index_of(axis))) {}
  static constexpr AxisSet all() {
    AxisSet set;
    set.bits_ = (1U << kNumAxes) - 1;
    return set;
  }
  [[nodiscard]] constexpr bool contains(Axis axis) const { return (bits_ >> index_of(axis)) & 1U; }
  [[nodiscard]] constexpr AxisSet with(AxisSet others) const {
    AxisSet set = *this;
    set.bits_ = static_cast<uint8_t>(set.bits_ | others.bits_);
    return set;
  }
  [[nodiscard]] constexpr AxisSet without(AxisSet others) const {
    AxisSet set = *this;
    set.bits_ = static_cast<uint8_t>(set.bits_ & ~others.bits_);
    return set;
  }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr int bits() const { return bits_; }
  friend constexpr bool operator==(AxisSet, AxisSet) = default;
  friend constexpr auto operator<=>(AxisSet, AxisSet) = default;

 private:
  uint8_t bits_ = 0;
};

// The ranks of fsdp; and those with different data, in the order in which they take samples.
constexpr AxisSet fsdp_axes() { return AxisSet(Axis::kFsdp).with(Axis::kFsdpIn); }
constexpr AxisSet sample_axes() { return AxisSet(Axis::kDp).with(fsdp_axes()); }

std::string name_of(AxisSet axes);  // "tp", "dp+fsdp", "world" for all of them

class Mesh {
 public:
  Mesh() { sizes_.fill(1); }
  // pp, dp, fsdp, cp, tp; `fsdp_in` divides fsdp.
  explicit Mesh(const std::array<int64_t, kNumAxes - 1>& sizes, int64_t fsdp_in = 1);

  [[nodiscard]] int64_t size(Axis axis) const { return sizes_[index_of(axis)]; }
  [[nodiscard]] int64_t size(AxisSet axes) const;  // ranks in one group
  [[nodiscard]] int64_t world() const { return size(AxisSet::all()); }
  [[nodiscard]] int64_t coord(int rank, Axis axis) const;
  // The ranks that differ from `rank` only in `axes`, ascending; contains `rank`.
  [[nodiscard]] std::vector<int> peers(int rank, AxisSet axes) const;
  // `axes` without those of size 1, which name no other ranks; all() stays the world.
  [[nodiscard]] AxisSet group(AxisSet axes) const;
  // The place of `rank` among its peers.
  [[nodiscard]] int position(int rank, AxisSet axes) const;
  [[nodiscard]] std::string describe(int rank) const;  // "dp1 tp0"

 private:
  std::array<int64_t, kNumAxes> sizes_{};
};

}  // namespace tessera
