#include "collective/selection.h"

namespace tessera {
namespace {

bool fits(const SelectionRule& rule, CollectiveOp op, int64_t bytes, int ranks) {
  return rule.op == op && bytes >= rule.min_bytes && bytes < rule.end_bytes &&
         ranks >= rule.min_ranks && ranks <= rule.max_ranks;
}

}  // namespace

Algorithm Selection::choose(CollectiveOp op, int64_t payload_bytes, int ranks) const {
  for (const SelectionRule& rule : rules) {
    if (!fits(rule, op, payload_bytes, ranks)) continue;
    if (rule.algorithm == Algorithm::kAuto) break;
    return rule.algorithm;
  }
  return choose_algorithm(op, payload_bytes, ranks);
}

}  // namespace tessera
