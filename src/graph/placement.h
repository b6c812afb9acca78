// Where a tensor lives on the mesh: one placement per axis, and the casts between placements.
// A cast is the only thing that communicates; one rule (dual) differentiates all of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// Outermost first: the innermost axis gets the fastest links. kFsdpIn is the inner part of fsdp
// where experts are split over a part of it; elsewhere it has one rank.
enum class Axis : uint8_t { kPp, kDp, kFsdp, kFsdpIn, kCp, kTp };
constexpr int kNumAxes = 6;
constexpr std::array<Axis, kNumAxes> kAllAxes = {Axis::kPp,     Axis::kDp, Axis::kFsdp,
                                                 Axis::kFsdpIn, Axis::kCp, Axis::kTp};
std::string_view name_of(Axis axis);

struct Placement {
  enum class Kind : uint8_t {
    kSplit,      // S(d): split along dimension d
    kReplicate,  // R: the same value everywhere, used differently by each rank
    kPartial,    // P: each rank holds a partial sum
    kInvariant,  // I: the same value everywhere, used identically
    kMaximum,    // M: every rank holds the largest of its part
  };
  Kind kind = Kind::kInvariant;
  int8_t dim = -1;  // of kSplit

  friend bool operator==(const Placement&, const Placement&) = default;
};

constexpr Placement split(int dim) { return {Placement::Kind::kSplit, static_cast<int8_t>(dim)}; }
constexpr Placement replicate() { return {Placement::Kind::kReplicate, -1}; }
constexpr Placement partial() { return {Placement::Kind::kPartial, -1}; }
constexpr Placement invariant() { return {Placement::Kind::kInvariant, -1}; }
constexpr Placement maximum() { return {Placement::Kind::kMaximum, -1}; }

// The placement of the gradient of a tensor placed so.
constexpr Placement dual(Placement p) {
  if (p.kind == Placement::Kind::kReplicate) return partial();
  if (p.kind == Placement::Kind::kPartial) return replicate();
  return p;
}

std::string to_string(Placement p);  // "S(0)", "R", "P", "I", "M"

using Placements = std::array<Placement, kNumAxes>;
constexpr size_t index_of(Axis axis) { return static_cast<size_t>(axis); }

// What a cast does to the data of one axis.
enum class CastKind : uint8_t {
  kNothing,        // I -> R
  kAllReduce,      // P -> I, P -> R; M -> I, M -> R
  kReduceScatter,  // P -> S(d)
  kAllGather,      // S(d) -> R, S(d) -> I
  kAllToAll,       // S(i) -> S(j)
  kSlice,          // I -> S(d), R -> S(d)
  kShift,          // no cast: what the op of that name does
};

// Throws InternalError for a pair that is no cast (R -> P, R -> I, equal ones …):
// such a cast would lose or double a sum.
CastKind cast_kind(Placement from, Placement to);
bool is_cast(Placement from, Placement to);

}  // namespace tessera
