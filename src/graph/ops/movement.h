// Movement that lowering adds; never in a graph.
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

inline constexpr OpRow kMovementOps[] = {
    only_lowered(OpKind::kZero, "zero", "> y", OpClass::kMovement),
    only_lowered(OpKind::kCopy, "copy", "x > y", OpClass::kMovement),
    only_lowered(OpKind::kAccumulate, "accumulate", "x > y", OpClass::kMovement,
                 {.bytes = BytesMoved::kIntoOutput}),
    only_lowered(OpKind::kSend, "send", "x >", OpClass::kCommunication),
    only_lowered(OpKind::kReceive, "receive", "> y", OpClass::kCommunication),
    only_lowered(OpKind::kSplitColumns, "split_columns", "x > blocks", OpClass::kMovement),
    only_lowered(OpKind::kJoinColumns, "join_columns", "blocks > y", OpClass::kMovement),
};

}  // namespace tessera::ops
