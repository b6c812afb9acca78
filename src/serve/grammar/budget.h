// Counts what compiling one schema does.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "serve/grammar/grammar.h"

namespace tessera::serve::grammar {

class Budget {
 public:
  explicit Budget(const GrammarLimits& limits) : limits_(limits) {}

  void step(int64_t count = 1) {
    steps_ += count;
    require_config(steps_ <= limits_.steps,
                   "schema: more than {} steps to compile it (limit 'steps'): look for references "
                   "that multiply, or for long repetitions in a pattern",
                   limits_.steps);
  }
  // Also of automata that become a part of others, or are thrown away.
  void check_states(size_t states) const {
    require_config(static_cast<int64_t>(states) <= limits_.states,
                   "schema: its automaton has more than {} states (limit 'states'): shorten its "
                   "lists of values, or its patterns",
                   limits_.states);
  }
  void check_edges(size_t edges) const {
    require_config(static_cast<int64_t>(edges) <= limits_.edges,
                   "schema: its automaton has more than {} edges (limit 'edges'): make more "
                   "properties required, or have fewer",
                   limits_.edges);
  }
  [[nodiscard]] const GrammarLimits& limits() const { return limits_; }

 private:
  GrammarLimits limits_;
  int64_t steps_ = 0;
};

}  // namespace tessera::serve::grammar
