#include "serve/grammar/rules.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera::serve::grammar {
namespace {

constexpr uint32_t kNoState = std::numeric_limits<uint32_t>::max();

}  // namespace

uint32_t RuleBuilder::add_rule(bool nests) {
  rules_.push_back({.start = kNoState, .nests = nests});
  return static_cast<uint32_t>(rules_.size() - 1);
}

void RuleBuilder::count(uint32_t rule, uint32_t min, uint32_t max) {
  rules_[rule].min = min;
  rules_[rule].max = max;
}

uint32_t RuleBuilder::add_state(uint32_t rule, bool final) {
  const auto state = static_cast<uint32_t>(states_.size());
  states_.push_back({.rule = rule, .final = final, .edges = {}, .calls = {}});
  if (rules_[rule].start == kNoState) rules_[rule].start = state;
  return state;
}

void RuleBuilder::add_edge(uint32_t from, uint8_t lo, uint8_t hi, uint32_t to, Guard guard) {
  states_[from].edges.push_back({lo, hi, guard, to});
  ++num_edges_;
}

void RuleBuilder::add_call(uint32_t from, uint32_t rule, uint32_t to, bool counts) {
  states_[from].calls.push_back({rule, to, counts});
  ++num_edges_;
}

void RuleBuilder::add_bytes_to(uint32_t from, const std::string& bytes, uint32_t to) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint32_t next = i + 1 == bytes.size() ? to : add_state(states_[from].rule);
    const auto byte = static_cast<uint8_t>(bytes[i]);
    add_edge(from, byte, byte, next);
    from = next;
  }
}

uint32_t RuleBuilder::add_bytes(uint32_t from, const std::string& bytes) {
  if (bytes.empty()) return from;
  const uint32_t to = add_state(states_[from].rule);
  add_bytes_to(from, bytes, to);
  return to;
}

// Shortest paths backwards from the ends, where the length of a path is its deepest nesting: all
// that needs no nesting first, then what needs one, and so on.
std::vector<uint16_t> RuleBuilder::heights(int text_depth) const {
  struct Caller {
    uint32_t from;
    RuleCall call;
  };
  std::vector<std::vector<uint32_t>> before(states_.size());  // by an edge
  std::vector<std::vector<Caller>> returns(states_.size());   // by a call that comes back here
  std::vector<std::vector<Caller>> callers(rules_.size());
  for (uint32_t state = 0; state < states_.size(); ++state) {
    for (const RuleEdge& edge : states_[state].edges) before[edge.target].push_back(state);
    for (const RuleCall& call : states_[state].calls) {
      returns[call.target].push_back({state, call});
      callers[call.rule].push_back({state, call});
    }
  }
  std::vector<uint16_t> height(states_.size(), kNeverEnds);
  std::vector<std::vector<uint32_t>> pending(static_cast<size_t>(text_depth) + 2);
  for (uint32_t state = 0; state < states_.size(); ++state) {
    if (states_[state].final) pending[0].push_back(state);
  }
  const auto height_of_call = [&](const RuleCall& call) {
    const Rule& rule = rules_[call.rule];
    if (rule.start == kNoState || height[rule.start] == kNeverEnds) return int{kNeverEnds};
    if (height[call.target] == kNeverEnds) return int{kNeverEnds};
    return std::max<int>(height[call.target], height[rule.start] + (rule.nests ? 1 : 0));
  };
  for (size_t level = 0; level < pending.size(); ++level) {
    for (size_t i = 0; i < pending[level].size(); ++i) {
      const uint32_t state = pending[level][i];
      if (height[state] != kNeverEnds) continue;
      height[state] = static_cast<uint16_t>(level);
      for (const uint32_t from : before[state]) pending[level].push_back(from);
      const auto reach = [&](const Caller& caller) {
        const int needed = height_of_call(caller.call);
        if (needed < static_cast<int>(pending.size())) {
          pending[static_cast<size_t>(needed)].push_back(caller.from);
        }
      };
      for (const Caller& caller : returns[state]) reach(caller);
      const uint32_t rule = states_[state].rule;
      if (rules_[rule].start == state) {
        for (const Caller& caller : callers[rule]) reach(caller);
      }
    }
    pending[level].clear();
    pending[level].shrink_to_fit();
  }
  return height;
}

// The longest chain of calls without a byte between them that leads to each rule.
std::vector<uint32_t> RuleBuilder::levels(const std::vector<std::string>& names) const {
  std::vector<uint32_t> waiting(rules_.size(), 0), level(rules_.size(), 0), ready;
  const auto for_calls = [&](uint32_t rule, const auto& each) {
    if (rules_[rule].start == kNoState) return;
    for (const RuleCall& call : states_[rules_[rule].start].calls) each(call.rule);
  };
  for (uint32_t rule = 0; rule < rules_.size(); ++rule) {
    for_calls(rule, [&](uint32_t called) { ++waiting[called]; });
  }
  for (uint32_t rule = 0; rule < rules_.size(); ++rule) {
    if (waiting[rule] == 0) ready.push_back(rule);
  }
  for (size_t i = 0; i < ready.size(); ++i) {
    for_calls(ready[i], [&](uint32_t called) {
      level[called] = std::max(level[called], level[ready[i]] + 1);
      if (--waiting[called] == 0) ready.push_back(called);
    });
  }
  for (uint32_t rule = 0; rule < rules_.size(); ++rule) {
    require_config(
        waiting[rule] == 0,
        "schema at '{}': it refers to itself without a list or an object between: put one "
        "there, or take the reference out",
        names[rule]);
  }
  return level;
}

Rules RuleBuilder::build(int text_depth, const std::vector<std::string>& names) const {
  const std::vector<uint32_t> level = levels(names);
  const std::vector<uint16_t> height = heights(text_depth);
  require_config(
      height[rules_[0].start] <= text_depth,
      "schema at '#': no text satisfies it, or only one with more than {} lists and "
      "objects inside each other: look for required properties that refer to themselves, "
      "and for lists of values of another type",
      text_depth);
  Rules made;
  made.text_depth = text_depth;
  made.rules = rules_;
  for (size_t i = 0; i < rules_.size(); ++i) made.rules[i].level = level[i];
  for (uint32_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    RuleState kept{.rule = state.rule, .height = height[i], .final = state.final};
    kept.first_edge = static_cast<uint32_t>(made.edges.size());
    kept.first_call = static_cast<uint32_t>(made.calls.size());
    for (const RuleEdge& edge : state.edges) {
      if (height[edge.target] != kNeverEnds) made.edges.push_back(edge);
    }
    for (const RuleCall& call : state.calls) {
      const uint32_t start = rules_[call.rule].start;
      if (height[call.target] == kNeverEnds || start == kNoState) continue;
      if (height[start] == kNeverEnds) continue;
      made.calls.push_back(call);
      made.rules[state.rule].is_leaf = false;
    }
    kept.end_edge = static_cast<uint32_t>(made.edges.size());
    kept.end_call = static_cast<uint32_t>(made.calls.size());
    if (height[i] != kNeverEnds) made.most_height = std::max(made.most_height, height[i]);
    made.states.push_back(kept);
  }
  return made;
}

}  // namespace tessera::serve::grammar
