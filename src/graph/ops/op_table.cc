// The table of ops, put together at compile time from the rows of the families.
#include "graph/op_table.h"

#include "graph/ops/attention.h"
#include "graph/ops/elementwise.h"
#include "graph/ops/embedding.h"
#include "graph/ops/experts.h"
#include "graph/ops/float8.h"
#include "graph/ops/linear.h"
#include "graph/ops/loss.h"
#include "graph/ops/movement.h"
#include "graph/ops/norm.h"
#include "graph/ops/placement_text.h"
#include "graph/ops/serving.h"
#include "graph/ops/structure.h"
#include "graph/ops/update.h"

namespace tessera {
namespace {

constexpr std::array<OpRow, kNumOps> kTable =
    rows_by_op<kNumOps>(ops::kStructureOps, ops::kEmbeddingOps, ops::kLinearOps, ops::kNormOps,
                        ops::kAttentionOps, ops::kElementwiseOps, ops::kLossOps, ops::kUpdateOps,
                        ops::kExpertOps, ops::kMovementOps, ops::kServingOps, ops::kFloat8Ops);

static_assert(std::ranges::none_of(kTable, [](const OpRow& row) {
  return std::string_view(row.name).empty();
}));
static_assert(std::ranges::all_of(kTable, ops::rules_fit_signature),
              "a placement rule has a word that is none, or not as many as the op has operands");

}  // namespace

const OpRow& row_of(OpKind op) { return kTable[index_of(op)]; }

std::string_view name_of(OpKind op) { return std::string_view(row_of(op).name); }

OpClass class_of(OpKind op) { return row_of(op).op_class; }

bool is_communication(OpKind op) { return class_of(op) == OpClass::kCommunication; }

bool can_accumulate(OpKind op) { return row_of(op).adds != Adds::kNever; }

std::string_view name_of(OpClass op_class) {
  static constexpr std::array<std::string_view, kNumOpClasses> kNames = {
      "products",  "attention", "norms",   "activations", "loss",
      "optimizer", "embedding", "routing", "movement",    "communication"};
  return kNames[static_cast<size_t>(op_class)];
}

std::span<const PlacementRule> placement_rules(OpKind op) {
  // By op: they are looked up for every axis of every node, after every pass.
  static const std::vector<std::vector<PlacementRule>> kParsed = [] {
    std::vector<std::vector<PlacementRule>> parsed(kNumOps);
    for (const OpRow& row : kTable) {
      for (const std::string_view text : row.rules.all()) {
        parsed[index_of(row.kind)].push_back(ops::parse_rule(text));
      }
    }
    return parsed;
  }();
  return kParsed[index_of(op)];
}

}  // namespace tessera
