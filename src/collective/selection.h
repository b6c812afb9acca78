// Which algorithm runs which call, said by the user: "all_reduce:0-4k:doubling#4k-inf:ring".
//
//   selection  rules separated by '#'; the first that fits decides, choose_algorithm if none does
//   rule       [op:][range:][ranks:]algorithm
//   op         "all_reduce", …; left out: the op of the rule before
//   range      "4k-1m": at least 4 KiB and less than 1 MiB, of the call's count in bytes; k, m and
//   g
//              are 2^10, 2^20 and 2^30; "inf" has no end; left out: every size
//   ranks      "n4-8": groups of 4 to 8 ranks, both included; "n4": of 4; left out: every group
//   algorithm  "ring", …, or "auto" for the default rule
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "collective/algorithm.h"
#include "collective/op.h"

namespace tessera {

struct SelectionRule {
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  CollectiveOp op = CollectiveOp::kAllReduce;
  int64_t min_bytes = 0;
  int64_t end_bytes = kNoLimit;  // not included
  int min_ranks = 1;
  int max_ranks = std::numeric_limits<int>::max();
  Algorithm algorithm = Algorithm::kAuto;
  bool operator==(const SelectionRule&) const = default;
};

struct Selection {
  std::vector<SelectionRule> rules;  // none: the default

  // Never kAuto.
  [[nodiscard]] Algorithm choose(CollectiveOp op, int64_t payload_bytes, int ranks) const;
};

// Throws ConfigError that quotes the rule, says what is wrong with it and what is possible.
Selection parse_selection(std::string_view text);

// What parse_selection reads.
std::string to_text(const Selection& selection);

}  // namespace tessera
