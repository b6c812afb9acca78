#include "serve/grammar/automaton.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace tessera::serve::grammar {

uint32_t Nfa::add_state() {
  budget_.step();
  budget_.check_states(states_.size());
  states_.emplace_back();
  return static_cast<uint32_t>(states_.size() - 1);
}

void Nfa::add_edge(uint32_t from, uint8_t lo, uint8_t hi, uint32_t to, bool begins) {
  budget_.step();
  budget_.check_edges(++num_edges_);
  states_[from].edges.push_back({{lo, hi, to}, begins});
}

void Nfa::add_empty(uint32_t from, uint32_t to, At where) {
  budget_.step();
  budget_.check_edges(++num_edges_);
  states_[from].empties.push_back({to, where});
}

uint32_t Nfa::add_bytes(uint32_t from, std::string_view bytes) {
  for (const char c : bytes) {
    const uint32_t next = add_state();
    add_edge(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), next);
    from = next;
  }
  return from;
}

// States are pairs of a state and how many characters have begun.
Nfa Nfa::of_length(uint32_t& first, uint32_t& last, int64_t min, int64_t max) const {
  Nfa made(budget_);
  std::map<std::pair<uint32_t, int64_t>, uint32_t> known;
  std::vector<std::pair<uint32_t, int64_t>> found;
  const auto state_of = [&](uint32_t state, int64_t count) {
    const auto [it, is_new] = known.try_emplace({state, count}, 0);
    if (is_new) {
      it->second = made.add_state();
      found.emplace_back(state, count);
    }
    return it->second;
  };
  const uint32_t new_first = state_of(first, 0);
  const uint32_t new_last = made.add_state();
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [state, count] = found[i];
    const uint32_t from = known.at(found[i]);
    if (state == last && count >= min) made.add_empty(from, new_last);
    for (const Edge& edge : states_[state].edges) {
      if (edge.begins && max >= 0 && count == max) continue;
      const int64_t after = edge.begins ? count + 1 : count;
      const int64_t kept = max < 0 ? std::min(after, min) : after;
      made.add_edge(from, edge.bytes.lo, edge.bytes.hi, state_of(edge.bytes.target, kept),
                    edge.begins);
    }
    for (const Empty& empty : states_[state].empties) {
      made.add_empty(from, state_of(empty.target, count), empty.where);
    }
  }
  first = new_first;
  last = new_last;
  return made;
}

// States of the deterministic automaton are sets of states.
class Subsets {
 public:
  Subsets(const Nfa& nfa, uint32_t last) : nfa_(nfa), last_(last), seen_(nfa.states_.size(), 0) {}

  [[nodiscard]] Dfa explore_from(uint32_t first) {
    find(closed({first}, true), ends({first}, true));
    for (size_t i = 0; i < sets_.size(); ++i) {
      Dfa::State state = leave(i);
      dfa_.states[i].edges = std::move(state.edges);
    }
    return std::move(dfa_);
  }

 private:
  using Set = std::vector<uint32_t>;

  // With what empty edges lead to, ascending.
  Set closed(Set set, bool at_start, bool at_end = false) {
    ++round_;
    for (const uint32_t state : set) seen_[state] = round_;
    for (size_t i = 0; i < set.size(); ++i) {
      for (const Nfa::Empty& empty : nfa_.states_[set[i]].empties) {
        nfa_.budget_.step();
        const bool may = empty.where == At::kAnywhere || (empty.where == At::kStart && at_start) ||
                         (empty.where == At::kEnd && at_end);
        if (!may || seen_[empty.target] == round_) continue;
        seen_[empty.target] = round_;
        set.push_back(empty.target);
      }
    }
    nfa_.budget_.step(2 * static_cast<int64_t>(set.size()));
    std::sort(set.begin(), set.end());
    return set;
  }
  bool ends(const Set& set, bool at_start) {
    const Set all = closed(set, at_start, true);
    return std::binary_search(all.begin(), all.end(), last_);
  }

  // A set is known by its closure and by whether a text may end in it.
  uint32_t find(Set set, bool final) {
    const auto [it, is_new] =
        known_.try_emplace({set, final}, static_cast<uint32_t>(dfa_.states.size()));
    if (is_new) {
      nfa_.budget_.check_states(dfa_.states.size());
      dfa_.states.push_back({.edges = {}, .final = final});
      sets_.push_back(std::move(set));
    }
    return it->second;
  }

  Dfa::State leave(size_t index) {
    std::vector<ByteEdge> edges;
    std::vector<int> cuts;
    for (const uint32_t state : sets_[index]) {
      for (const Nfa::Edge& edge : nfa_.states_[state].edges) {
        edges.push_back(edge.bytes);
        cuts.push_back(edge.bytes.lo);
        cuts.push_back(edge.bytes.hi + 1);
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    Dfa::State made;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      nfa_.budget_.step(static_cast<int64_t>(edges.size()));
      ++round_;
      Set targets;
      for (const ByteEdge& edge : edges) {
        if (edge.lo > cuts[i] || edge.hi < cuts[i] || seen_[edge.target] == round_) continue;
        seen_[edge.target] = round_;
        targets.push_back(edge.target);
      }
      if (targets.empty()) continue;
      const bool final = ends(targets, false);
      const uint32_t target = find(closed(std::move(targets), false), final);
      made.edges.push_back(
          {static_cast<uint8_t>(cuts[i]), static_cast<uint8_t>(cuts[i + 1] - 1), target});
    }
    return made;
  }

  const Nfa& nfa_;
  uint32_t last_;
  std::vector<uint64_t> seen_;
  uint64_t round_ = 0;
  std::map<std::pair<Set, bool>, uint32_t> known_;
  std::vector<Set> sets_;
  Dfa dfa_;
};

Dfa Nfa::deterministic(uint32_t first, uint32_t last) const {
  return Subsets(*this, last).explore_from(first);
}

}  // namespace tessera::serve::grammar
