#include "serve/grammar/scalars.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "serve/grammar/characters.h"

namespace tessera::serve::grammar {
namespace {

using Json = nlohmann::ordered_json;

// Adds what `dfa` reads to `rule`, from `start` on; its ends become `end` through `closing`, or
// final states where that is 0.
void add_dfa(RuleBuilder& rules, uint32_t rule, const Dfa& dfa, uint32_t start, uint8_t closing,
             uint32_t end) {
  std::vector<uint32_t> states;
  for (size_t i = 0; i < dfa.states.size(); ++i) {
    const bool final = closing == 0 && dfa.states[i].final;
    states.push_back(i == 0 && closing != 0 ? start : rules.add_state(rule, final));
  }
  for (size_t i = 0; i < dfa.states.size(); ++i) {
    for (const ByteEdge& edge : dfa.states[i].edges) {
      rules.add_edge(states[i], edge.lo, edge.hi, states[edge.target]);
    }
    if (closing != 0 && dfa.states[i].final) rules.add_edge(states[i], closing, closing, end);
  }
}

// Adds the spelling of values to an automaton.
class ValueWriter {
 public:
  ValueWriter(Nfa& nfa, bool blanks) : nfa_(nfa), blanks_(blanks) {}

  uint32_t write(uint32_t from, const Json& value) {
    if (value.is_string()) return write_string(from, value.get_ref<const std::string&>());
    if (!value.is_structured()) return nfa_.add_bytes(from, value.dump());
    const bool is_object = value.is_object();
    from = nfa_.add_bytes(from, is_object ? "{" : "[");
    bool first = true;
    for (const auto& item : value.items()) {
      if (!first) from = write_sign(from, ",");
      first = false;
      if (is_object) from = write_sign(write_string(from, item.key()), ":");
      from = write(from, item.value());
    }
    return nfa_.add_bytes(from, is_object ? "}" : "]");
  }

 private:
  uint32_t write_string(uint32_t from, const std::string& text) {
    return nfa_.add_bytes(from, '"' + canonical_spelling(text) + '"');
  }
  uint32_t write_sign(uint32_t from, std::string_view sign) {
    from = nfa_.add_bytes(from, sign);
    if (!blanks_) return from;
    const uint32_t after = nfa_.add_bytes(from, " ");
    nfa_.add_empty(from, after);
    return after;
  }

  Nfa& nfa_;
  bool blanks_;
};

// The names as a tree of their bytes.
struct NameTree {
  struct Node {
    std::map<uint8_t, uint32_t> children;
    bool ends = false;
  };
  std::vector<Node> nodes = {{}};

  void add(const std::string& spelling) {
    uint32_t at = 0;
    for (const char c : spelling) {
      const auto [it, is_new] = nodes[at].children.try_emplace(static_cast<uint8_t>(c),
                                                               static_cast<uint32_t>(nodes.size()));
      at = it->second;
      if (is_new) nodes.emplace_back();
    }
    nodes[at].ends = true;
  }
};

Dfa all_strings(Budget& budget) {
  Nfa nfa(budget);
  const uint32_t loop = nfa.add_state();
  add_character(nfa, loop, any_code(), loop);
  return nfa.deterministic(loop, loop);
}

constexpr uint32_t kOutside = UINT32_MAX;  // of the tree

}  // namespace

void add_plain(RuleBuilder& rules, uint32_t rule, const Dfa& dfa) {
  add_dfa(rules, rule, dfa, 0, 0, 0);
}

void add_quoted(RuleBuilder& rules, uint32_t rule, const Dfa& inside) {
  const uint32_t start = rules.add_state(rule);
  const uint32_t end = rules.add_state(rule, true);
  const uint32_t first = rules.add_state(rule);
  rules.add_edge(start, '"', '"', first);
  add_dfa(rules, rule, inside, first, '"', end);
}

void add_free_string(RuleBuilder& rules, uint32_t rule) {
  const auto state = [&] { return rules.add_state(rule); };
  const uint32_t start = state(), body = state(), end = rules.add_state(rule, true);
  const auto begin = [&](int lo, int hi, uint32_t to) {
    rules.add_edge(body, static_cast<uint8_t>(lo), static_cast<uint8_t>(hi), to, Guard::kCounts);
  };
  const auto edge = [&](uint32_t from, int lo, int hi, uint32_t to) {
    rules.add_edge(from, static_cast<uint8_t>(lo), static_cast<uint8_t>(hi), to);
  };
  const auto hex_digit = [&](uint32_t from, uint32_t to) {
    edge(from, '0', '9', to);
    edge(from, 'A', 'F', to);
    edge(from, 'a', 'f', to);
  };
  const uint32_t one = state(), two = state(), three = state();  // bytes of a character to come
  edge(start, '"', '"', body);
  begin(0x20, 0x21, body);
  begin(0x23, 0x5B, body);
  begin(0x5D, 0x7F, body);
  begin(0xC2, 0xDF, one);
  begin(0xE1, 0xEC, two);
  begin(0xEE, 0xEF, two);
  begin(0xF1, 0xF3, three);
  edge(one, 0x80, 0xBF, body);
  edge(two, 0x80, 0xBF, one);
  edge(three, 0x80, 0xBF, two);
  // Neither what is too long, nor surrogates, nor what is above U+10FFFF.
  struct Special {
    int lead, lo, hi;
    uint32_t to;
  };
  for (const Special& special : {Special{0xE0, 0xA0, 0xBF, one}, Special{0xED, 0x80, 0x9F, one},
                                 Special{0xF0, 0x90, 0xBF, two}, Special{0xF4, 0x80, 0x8F, two}}) {
    const uint32_t after = state();
    begin(special.lead, special.lead, after);
    edge(after, special.lo, special.hi, special.to);
  }
  rules.add_edge(body, '"', '"', end, Guard::kEnough);

  const uint32_t escape = state(), unicode = state();
  const uint32_t three_digits = state(), two_digits = state(), one_digit = state();
  begin('\\', '\\', escape);
  for (const char letter : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) {
    edge(escape, letter, letter, body);
  }
  edge(escape, 'u', 'u', unicode);
  edge(unicode, '0', '9', three_digits);
  edge(unicode, 'A', 'C', three_digits);
  edge(unicode, 'E', 'F', three_digits);
  edge(unicode, 'a', 'c', three_digits);
  edge(unicode, 'e', 'f', three_digits);
  hex_digit(three_digits, two_digits);
  hex_digit(two_digits, one_digit);
  hex_digit(one_digit, body);
  // \uD800..\uDBFF, then \uDC00..\uDFFF: both are one character.
  const uint32_t after_d = state();
  edge(unicode, 'D', 'D', after_d);
  edge(unicode, 'd', 'd', after_d);
  edge(after_d, '0', '7', two_digits);
  const uint32_t high_two = state(), high_one = state(), high_end = state();
  edge(after_d, '8', '9', high_two);
  edge(after_d, 'A', 'B', high_two);
  edge(after_d, 'a', 'b', high_two);
  hex_digit(high_two, high_one);
  hex_digit(high_one, high_end);
  const uint32_t low = rules.add_bytes(high_end, "\\u");
  const uint32_t low_d = state();
  edge(low, 'D', 'D', low_d);
  edge(low, 'd', 'd', low_d);
  edge(low_d, 'C', 'F', two_digits);
  edge(low_d, 'c', 'f', two_digits);
}

Dfa strings_but(const std::vector<std::string>& names, Budget& budget) {
  NameTree tree;
  for (const std::string& name : names) tree.add(canonical_spelling(name));
  const Dfa all = all_strings(budget);
  using Key = std::pair<uint32_t, uint32_t>;  // where in the tree, where in `all`
  const auto next = [&](const Key& key, uint8_t byte) -> std::optional<Key> {
    for (const ByteEdge& edge : all.states[key.second].edges) {
      if (byte < edge.lo || byte > edge.hi) continue;
      if (key.first == kOutside) return Key{kOutside, edge.target};
      const auto& children = tree.nodes[key.first].children;
      const auto child = children.find(byte);
      return Key{child == children.end() ? kOutside : child->second, edge.target};
    }
    return std::nullopt;
  };
  const auto is_final = [&](const Key& key) {
    return all.states[key.second].final && (key.first == kOutside || !tree.nodes[key.first].ends);
  };
  return explore(Key{0, 0}, next, is_final, budget);
}

Dfa one_of_values(const std::vector<const Json*>& values, bool blanks, Budget& budget) {
  Nfa nfa(budget);
  const uint32_t first = nfa.add_state(), last = nfa.add_state();
  ValueWriter writer(nfa, blanks);
  for (const Json* value : values) nfa.add_empty(writer.write(first, *value), last);
  return nfa.deterministic(first, last);
}

}  // namespace tessera::serve::grammar
