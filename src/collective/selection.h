// Which algorithm runs which call, where a caller has rules of its own.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "collective/algorithm.h"
#include "collective/op.h"

namespace tessera {

struct SelectionRule {
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  CollectiveOp op = CollectiveOp::kAllReduce;
  int64_t min_bytes = 0;         // of the call's count
  int64_t end_bytes = kNoLimit;  // not included
  int min_ranks = 1;
  int max_ranks = std::numeric_limits<int>::max();
  Algorithm algorithm = Algorithm::kAuto;  // kAuto: the default rule
};

struct Selection {
  std::vector<SelectionRule> rules;  // the first that fits decides, choose_algorithm if none does

  // Never kAuto.
  [[nodiscard]] Algorithm choose(CollectiveOp op, int64_t payload_bytes, int ranks) const;
};

}  // namespace tessera
