// What collectives cost, in closed form: for the cost table of docs/collectives.md and for whoever
// has no time to write out a schedule. The tests compare every form with the schedules themselves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "collective/schedule.h"

namespace tessera {

struct CostShape {
  int ranks = 1;
  int64_t count = 0;  // as in CollectiveCall
  int64_t element_bytes = 4;
  int ranks_per_node = 0;  // hierarchical, on equal nodes; 0: all on one
};

struct CollectiveCost {
  int64_t bytes_sent = 0;  // by the rank that sends most
  int steps = 0;           // messages that must follow each other, once every block has elements
  bool operator==(const CollectiveCost&) const = default;
};

// One line of the table. The texts use n ranks, L = log2(n) rounded up, B bytes of `count`
// elements, and m nodes of g ranks.
struct CostForm {
  CollectiveOp op = CollectiveOp::kBarrier;
  Algorithm algorithm = Algorithm::kDirect;
  std::string_view bytes_text;
  std::string_view steps_text;
  CollectiveCost (*cost)(const CostShape& shape) = nullptr;  // for 2 ranks or more
};

// The forms of every op but all_to_all_v and receive.
std::span<const CostForm> cost_forms();

// Throws ConfigError for an algorithm that the op does not have.
CollectiveCost closed_form_cost(CollectiveOp op, Algorithm algorithm, const CostShape& shape);

// The table in Markdown, with two columns of figures counted from the schedules.
std::string cost_table_markdown();

}  // namespace tessera
