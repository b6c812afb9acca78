// Movement that lowering adds; never in a graph.
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

// What all of them have in common: an instruction, and nothing else.
constexpr OpRow movement(OpKind kind, const char* name, const char* signature,
                         OpClass op_class = OpClass::kMovement,
                         BytesMoved bytes = BytesMoved::kOperands) {
  return {.kind = kind,
          .name = name,
          .signature = signature,
          .types = never_in_a_graph,
          .rules = RuleTexts::none(),
          .gradient = no_gradient,
          .storage = Place::kElsewhere,
          .adds = Adds::kNever,
          .op_class = op_class,
          .cost = {.bytes = bytes},
          .kernel = {.lowered = Lowered::kNotInGraph}};
}

inline constexpr OpRow kMovementOps[] = {
    movement(OpKind::kZero, "zero", "> y"),
    movement(OpKind::kCopy, "copy", "x > y"),
    movement(OpKind::kAccumulate, "accumulate", "x > y", OpClass::kMovement,
             BytesMoved::kIntoOutput),
    movement(OpKind::kSend, "send", "x >", OpClass::kCommunication),
    movement(OpKind::kReceive, "receive", "> y", OpClass::kCommunication),
    movement(OpKind::kSplitColumns, "split_columns", "x > blocks"),
    movement(OpKind::kJoinColumns, "join_columns", "blocks > y"),
};

}  // namespace tessera::ops
