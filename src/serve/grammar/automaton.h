// Finite automata over bytes: what scalars of JSON are written as.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/grammar/budget.h"

namespace tessera::serve::grammar {

struct ByteEdge {
  uint8_t lo = 0, hi = 0;
  uint32_t target = 0;
};

// Deterministic; state 0 is the first. Edges of a state ascend and do not overlap.
struct Dfa {
  struct State {
    std::vector<ByteEdge> edges;
    bool final = false;
  };
  std::vector<State> states;
};

// Where an empty edge may be taken.
enum class At : uint8_t { kAnywhere, kStart, kEnd };

// Not deterministic: what patterns and lists of values are built as.
class Nfa {
 public:
  explicit Nfa(Budget& budget) : budget_(budget) {}

  uint32_t add_state();
  // `begins` says that a character of the text begins with this byte.
  void add_edge(uint32_t from, uint8_t lo, uint8_t hi, uint32_t to, bool begins = false);
  void add_empty(uint32_t from, uint32_t to, At where = At::kAnywhere);
  // A chain for these bytes; gives its last state.
  uint32_t add_bytes(uint32_t from, std::string_view bytes);

  // What is left where texts have from `min` to `max` characters (max < 0: no limit). `first` and
  // `last` become those of the new one.
  [[nodiscard]] Nfa of_length(uint32_t& first, uint32_t& last, int64_t min, int64_t max) const;
  // The texts that lead from `first` to `last`.
  [[nodiscard]] Dfa deterministic(uint32_t first, uint32_t last) const;

 private:
  friend class Subsets;
  struct Edge {
    ByteEdge bytes;
    bool begins = false;
  };
  struct Empty {
    uint32_t target = 0;
    At where = At::kAnywhere;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<Empty> empties;
  };
  Budget& budget_;
  std::vector<State> states_;
  size_t num_edges_ = 0;
};

// The automaton whose states are values of `Key`, found from `first`: `next(key, byte)` gives the
// state after a byte, if there is one, and `is_final(key)` whether a text may end there.
template <typename Key, typename Next, typename IsFinal>
Dfa explore(const Key& first, const Next& next, const IsFinal& is_final, Budget& budget) {
  Dfa dfa;
  std::map<Key, uint32_t> known = {{first, 0}};
  std::vector<Key> keys = {first};
  for (size_t i = 0; i < keys.size(); ++i) {
    budget.step(256);
    budget.check_states(keys.size());
    Dfa::State state;
    state.final = is_final(keys[i]);
    for (int byte = 0; byte < 256; ++byte) {
      const auto after = next(keys[i], static_cast<uint8_t>(byte));
      if (!after) continue;
      const auto [it, is_new] = known.try_emplace(*after, static_cast<uint32_t>(keys.size()));
      if (is_new) keys.push_back(*after);
      const bool joins = !state.edges.empty() && state.edges.back().target == it->second &&
                         state.edges.back().hi + 1 == byte;
      if (joins) {
        state.edges.back().hi = static_cast<uint8_t>(byte);
      } else {
        const auto at = static_cast<uint8_t>(byte);
        state.edges.push_back({at, at, it->second});
      }
    }
    dfa.states.push_back(std::move(state));
  }
  return dfa;
}

}  // namespace tessera::serve::grammar
