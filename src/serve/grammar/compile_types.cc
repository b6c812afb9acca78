// The part of SchemaCompiler that writes one type at a time.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/unicode/unicode.h"
#include "serve/grammar/characters.h"
#include "serve/grammar/compiler.h"
#include "serve/grammar/formats.h"
#include "serve/grammar/pattern.h"
#include "serve/grammar/scalars.h"

namespace tessera::serve::grammar {
namespace {

uint32_t as_limit(int64_t most) { return most < 0 ? kNoLimit : static_cast<uint32_t>(most); }

bool has_end(const Dfa& dfa) {
  return std::any_of(dfa.states.begin(), dfa.states.end(),
                     [](const Dfa::State& state) { return state.final; });
}

// The states of an object around its names: which property may come next depends on the last one.
class ObjectWriter {
 public:
  ObjectWriter(RuleBuilder& rules, uint32_t rule, const Properties& properties, Budget& budget)
      : rules_(rules), rule_(rule), properties_(properties), budget_(budget) {}

  // `values` are the rules of the properties, then that of further ones.
  void write(const std::vector<uint32_t>& values, bool blanks) {
    const size_t count = properties_.list.size();
    const uint32_t start = rules_.add_state(rule_);
    end_ = rules_.add_state(rule_, true);
    for (size_t i = 0; i <= count; ++i) after_.push_back(rules_.add_state(rule_));
    write_names(values, blanks);
    const uint32_t opened = rules_.add_bytes(start, "{");
    if (may_end(0)) rules_.add_edge(opened, '}', '}', end_);
    for (size_t i = 0; i <= count; ++i) {
      if ((i > 0 || count == 0) && may_end(i)) rules_.add_edge(after_[i], '}', '}', end_);
      const bool more = i < count || properties_.further;
      if (!more) continue;
      const uint32_t name = rules_.add_state(rule_);
      write_choice(name, i);
      if (i == 0) {
        rules_.add_edge(opened, '"', '"', name);
        if (count > 0) continue;  // nothing comes back to where nothing is written
      }
      const uint32_t comma = rules_.add_bytes(after_[i], ",");
      rules_.add_edge(comma, '"', '"', name);
      if (blanks) rules_.add_bytes_to(comma, " \"", name);
    }
  }

 private:
  [[nodiscard]] bool may_end(size_t from) const {
    return std::none_of(properties_.list.begin() + static_cast<ptrdiff_t>(from),
                        properties_.list.end(), [](const Property& one) { return one.required; });
  }

  void call(uint32_t colon, uint32_t value, uint32_t to, bool blanks) {
    rules_.add_call(colon, value, to);
    if (blanks) rules_.add_call(rules_.add_bytes(colon, " "), value, to);
  }

  // What follows the first byte of each name, once for all places where it may stand.
  void write_names(const std::vector<uint32_t>& values, bool blanks) {
    for (size_t i = 0; i < properties_.list.size(); ++i) {
      const std::string spelling = canonical_spelling(properties_.list[i].name) + "\":";
      budget_.step(std::ssize(spelling));
      budget_.check_states(rules_.num_states());
      first_bytes_.push_back(static_cast<uint8_t>(spelling[0]));
      rests_.push_back(rules_.add_state(rule_));
      call(rules_.add_bytes(rests_.back(), spelling.substr(1)), values[i], after_[i + 1], blanks);
    }
    if (!properties_.further) return;
    std::vector<std::string> names;
    for (const Property& one : properties_.list) names.push_back(one.name);
    const Dfa others = strings_but(names, budget_);
    const uint32_t quoted = rules_.add_state(rule_);
    const auto base = static_cast<uint32_t>(rules_.num_states());
    for (size_t i = 0; i < others.states.size(); ++i) rules_.add_state(rule_);
    for (uint32_t i = 0; i < others.states.size(); ++i) {
      for (const ByteEdge& edge : others.states[i].edges) {
        rules_.add_edge(base + i, edge.lo, edge.hi, base + edge.target);
      }
      if (others.states[i].final) rules_.add_edge(base + i, '"', '"', quoted);
    }
    for (const ByteEdge& edge : others.states[0].edges) {
      further_.push_back({edge.lo, edge.hi, base + edge.target});
    }
    if (others.states[0].final) further_.push_back({'"', '"', quoted});
    call(rules_.add_bytes(quoted, ":"), values.back(), after_.back(), blanks);
  }

  // Properties from `from` on, up to the first one that must come.
  void write_choice(uint32_t name, size_t from) {
    size_t next = from;
    for (; next < properties_.list.size(); ++next) {
      rules_.add_edge(name, first_bytes_[next], first_bytes_[next], rests_[next]);
      if (properties_.list[next].required) break;
    }
    budget_.step(static_cast<int64_t>(next - from + 1));
    budget_.check_edges(rules_.num_edges());
    if (next < properties_.list.size()) return;
    for (const ByteEdge& edge : further_) rules_.add_edge(name, edge.lo, edge.hi, edge.target);
  }

  RuleBuilder& rules_;
  uint32_t rule_;
  const Properties& properties_;
  Budget& budget_;
  uint32_t end_ = 0;
  std::vector<uint32_t> after_;  // [i]: written up to property i - 1
  std::vector<uint32_t> rests_;  // of names, behind their first byte
  std::vector<uint8_t> first_bytes_;
  std::vector<ByteEdge> further_;  // the first byte of any other name
};

}  // namespace

void SchemaCompiler::write_object(uint32_t rule, const SchemaPlace& place) {
  const Properties properties = properties_of(place);
  std::vector<uint32_t> values;
  for (const Property& one : properties.list) values.push_back(rule_of(one.schema));
  if (properties.further) values.push_back(rule_of(*properties.further));
  ObjectWriter(rules_, rule, properties, budget_).write(values, budget_.limits().blanks);
}

void SchemaCompiler::call_after_sign(uint32_t from, char sign, Guard guard, uint32_t value,
                                     uint32_t to, bool counts) {
  const uint32_t rule = rules_.rule_of_state(from);
  const uint32_t after = rules_.add_state(rule);
  const auto byte = static_cast<uint8_t>(sign);
  rules_.add_edge(from, byte, byte, after, guard);
  rules_.add_call(after, value, to, counts);
  if (budget_.limits().blanks) rules_.add_call(rules_.add_bytes(after, " "), value, to, counts);
}

void SchemaCompiler::write_list(uint32_t rule, const SchemaPlace& place) {
  const Items items = items_of(place);
  const uint32_t start = rules_.add_state(rule), end = rules_.add_state(rule, true);
  uint32_t at = rules_.add_bytes(start, "[");  // behind so many items
  int64_t written = 0;
  for (const SchemaPlace& item : items.first) {
    if (items.max >= 0 && written == items.max) break;
    if (written >= items.min) rules_.add_edge(at, ']', ']', end);
    const uint32_t next = rules_.add_state(rule);
    if (written++ == 0) {
      rules_.add_call(at, rule_of(item), next);
    } else {
      call_after_sign(at, ',', Guard::kNone, rule_of(item), next);
    }
    at = next;
  }
  if (written >= items.min) rules_.add_edge(at, ']', ']', end);
  if (!items.rest || (items.max >= 0 && written == items.max)) return;
  // The others are counted, not written out.
  const int64_t most = items.max < 0 ? -1 : items.max - written;
  rules_.count(rule, static_cast<uint32_t>(std::max<int64_t>(items.min - written, 0)),
               as_limit(most));
  const uint32_t value = rule_of(*items.rest);
  const uint32_t more = rules_.add_state(rule);
  if (written == 0) {
    rules_.add_call(at, value, more, true);
  } else {
    call_after_sign(at, ',', Guard::kNone, value, more, true);
  }
  rules_.add_edge(more, ']', ']', end, Guard::kEnough);
  call_after_sign(more, ',', Guard::kRoom, value, more, true);
}

void SchemaCompiler::write_string(uint32_t rule, const SchemaPlace& place) {
  const int64_t min = count_at(place, "minLength", 0), max = count_at(place, "maxLength", -1);
  if (max >= 0 && max < min) place.at("maxLength").fail("it is below 'minLength'");
  if (!place.has("pattern") && !place.has("format")) {
    rules_.count(rule, static_cast<uint32_t>(min), as_limit(max));
    return add_free_string(rules_, rule);
  }
  if (place.has("pattern") && place.has("format")) {
    place.at("format").fail("'format' beside 'pattern' is not supported: leave one of them out");
  }
  const std::string keyword = place.has("pattern") ? "pattern" : "format";
  const SchemaPlace here = place.at(keyword);
  if (!here.json->is_string()) here.fail("expected a text");
  std::string pattern = here.json->get<std::string>();
  if (valid_prefix(pattern) != pattern.size()) here.fail("expected text that is UTF-8");
  if (keyword == "format") {
    const std::string_view known = pattern_of_format(pattern);
    if (known.empty()) {
      here.fail("this format is not supported; known: " + known_formats() +
                ". Leave it out, or write a 'pattern'");
    }
    pattern = known;
  }
  const std::string key = std::to_string(min) + " " + std::to_string(max) + " " + pattern;
  auto known = strings_.find(key);
  if (known == strings_.end()) {
    Dfa dfa = string_of_pattern(pattern, here.in_words(), min, max, budget_);
    if (!has_end(dfa)) here.fail("no string of the length that is asked for matches it");
    known = strings_.emplace(key, std::move(dfa)).first;
  }
  add_quoted(rules_, rule, known->second);
}

void SchemaCompiler::write_number(uint32_t rule, const SchemaPlace& place, bool whole) {
  const NumberRange range = range_of(place);
  const Dfa dfa = whole ? integers(range, budget_) : numbers(range, budget_);
  if (!has_end(dfa)) {
    place.fail(whole ? "no whole number of 64 bits is within its bounds"
                     : fmt::format("no number of {} digits is within its bounds", kMostDigits));
  }
  add_plain(rules_, rule, dfa);
}

}  // namespace tessera::serve::grammar
