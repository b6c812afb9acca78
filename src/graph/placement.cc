#include "graph/placement.h"

#include "base/error.h"

namespace tessera {

std::string_view name_of(Axis axis) {
  static constexpr std::array<std::string_view, kNumAxes> kNames = {"pp",      "dp", "fsdp",
                                                                    "fsdp_in", "cp", "tp"};
  return kNames[index_of(axis)];
}

std::string to_string(Placement p) {
  switch (p.kind) {
    case Placement::Kind::kSplit:
      return fmt::format("S({})", p.dim);
    case Placement::Kind::kReplicate:
      return "R";
    case Placement::Kind::kPartial:
      return "P";
    case Placement::Kind::kInvariant:
      return "I";
    case Placement::Kind::kMaximum:
      return "M";
  }
  return "?";
}

bool is_cast(Placement from, Placement to) {
  using Kind = Placement::Kind;
  switch (from.kind) {
    case Kind::kPartial:
      return to.kind != Kind::kPartial && to.kind != Kind::kMaximum;
    case Kind::kSplit:
      return to.kind != Kind::kPartial && to.kind != Kind::kMaximum && !(to == from);
    case Kind::kInvariant:
      return to.kind == Kind::kReplicate || to.kind == Kind::kSplit;
    case Kind::kReplicate:
      return to.kind == Kind::kSplit;
    case Kind::kMaximum:
      return to.kind == Kind::kInvariant || to.kind == Kind::kReplicate;
  }
  return false;
}

CastKind cast_kind(Placement from, Placement to) {
  using Kind = Placement::Kind;
  TESSERA_CHECK(is_cast(from, to), "{} -> {} is no cast", to_string(from), to_string(to));
  if (from.kind == Kind::kPartial) {
    return to.kind == Kind::kSplit ? CastKind::kReduceScatter : CastKind::kAllReduce;
  }
  if (from.kind == Kind::kMaximum) return CastKind::kAllReduce;
  if (from.kind == Kind::kSplit) {
    return to.kind == Kind::kSplit ? CastKind::kAllToAll : CastKind::kAllGather;
  }
  return to.kind == Kind::kSplit ? CastKind::kSlice : CastKind::kNothing;
}

}  // namespace tessera
