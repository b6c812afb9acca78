// A schema as an automaton with calls: states are left by bytes, or by calling a rule that reads a
// value and comes back. It is cut back to what can be finished: from each state that it has, some
// text reaches the end.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tessera::serve::grammar {

inline constexpr uint32_t kNoLimit = std::numeric_limits<uint32_t>::max();
inline constexpr uint16_t kNeverEnds = std::numeric_limits<uint16_t>::max();

// What a rule counts: characters of a string, items of a list.
enum class Guard : uint8_t {
  kNone,
  kCounts,  // one more, where there is room for it
  kRoom,    // only where there is room for one more
  kEnough,  // only where the least has been reached
};

struct RuleEdge {
  uint8_t lo = 0, hi = 0;
  Guard guard = Guard::kNone;
  uint32_t target = 0;
};

struct RuleCall {
  uint32_t rule = 0;
  uint32_t target = 0;  // where it comes back to
  bool counts = false;
};

struct RuleState {
  uint32_t rule = 0;                      // that it belongs to
  uint32_t first_edge = 0, end_edge = 0;  // in Rules::edges
  uint32_t first_call = 0, end_call = 0;  // in Rules::calls
  uint16_t height = kNeverEnds;  // how many more lists and objects inside each other the end needs
  bool final = false;            // the rule may end here
};

struct Rule {
  uint32_t start = 0;
  uint32_t min = 0, max = kNoLimit;  // of what it counts
  uint32_t level = 0;                // above that of rules that call it before their first byte
  bool nests = false;                // a list or an object
  bool is_leaf = true;               // calls nothing
};

struct Rules {
  std::vector<Rule> rules;  // the first one is the whole text
  std::vector<RuleState> states;
  std::vector<RuleEdge> edges;
  std::vector<RuleCall> calls;
  uint16_t most_height = 0;
  int text_depth = 0;  // lists and objects inside each other
};

// Writing rules down: states and rules are named before they are complete.
class RuleBuilder {
 public:
  uint32_t add_rule(bool nests = false);
  void count(uint32_t rule, uint32_t min, uint32_t max);
  uint32_t add_state(uint32_t rule, bool final = false);  // the first one of a rule is its start
  void add_edge(uint32_t from, uint8_t lo, uint8_t hi, uint32_t to, Guard guard = Guard::kNone);
  void add_call(uint32_t from, uint32_t rule, uint32_t to, bool counts = false);
  // A chain for these bytes; gives its last state, or leads to `to`.
  uint32_t add_bytes(uint32_t from, const std::string& bytes);
  void add_bytes_to(uint32_t from, const std::string& bytes, uint32_t to);

  [[nodiscard]] uint32_t rule_of_state(uint32_t state) const { return states_[state].rule; }
  [[nodiscard]] size_t num_states() const { return states_.size(); }
  [[nodiscard]] size_t num_edges() const { return num_edges_; }

  // Throws ConfigError where nothing can be written, where the first rule needs more than
  // `text_depth`, and where a rule calls itself before its first byte. `names` are those of rules,
  // for messages.
  [[nodiscard]] Rules build(int text_depth, const std::vector<std::string>& names) const;

 private:
  struct State {
    uint32_t rule = 0;
    bool final = false;
    std::vector<RuleEdge> edges;
    std::vector<RuleCall> calls;
  };
  [[nodiscard]] std::vector<uint16_t> heights(int text_depth) const;
  [[nodiscard]] std::vector<uint32_t> levels(const std::vector<std::string>& names) const;

  std::vector<Rule> rules_;
  std::vector<State> states_;
  size_t num_edges_ = 0;
};

}  // namespace tessera::serve::grammar
