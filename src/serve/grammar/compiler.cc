#include "serve/grammar/compiler.h"

#include <algorithm>
#include <utility>

#include "serve/grammar/scalars.h"
#include "serve/grammar/schema_values.h"

namespace tessera::serve::grammar {
namespace {

constexpr const char* kAllTypes[] = {"object", "array", "string", "number", "boolean", "null"};

}  // namespace

Rules SchemaCompiler::compile() {
  const uint32_t text = new_rule("#");
  const uint32_t begin = rules_.add_state(text), end = rules_.add_state(text, true);
  const uint32_t value = rule_of(source_.root());
  rules_.add_call(begin, value, end);
  if (budget_.limits().blanks) {
    const uint32_t after = rules_.add_state(text);
    rules_.add_edge(begin, ' ', ' ', after);
    rules_.add_call(after, value, end);
  }
  while (!work_.empty()) {
    const Work work = std::move(work_.back());
    work_.pop_back();
    write(work);
    check_size();
  }
  return rules_.build(budget_.limits().text_depth, names_);
}

void SchemaCompiler::check_size() const {
  budget_.check_states(rules_.num_states());
  budget_.check_edges(rules_.num_edges());
}

uint32_t SchemaCompiler::new_rule(const std::string& name, bool nests) {
  budget_.step();
  names_.push_back(name);
  return rules_.add_rule(nests);
}

uint32_t SchemaCompiler::rule_of(const SchemaPlace& place) {
  return rule_of_type(source_.resolved(place), "");
}

uint32_t SchemaCompiler::rule_of_type(const SchemaPlace& place, const std::string& type) {
  // `true` is the same everywhere.
  const bool any = place.json->is_boolean() && place.json->get<bool>();
  const Json* key = any ? &any_value() : place.json;
  const auto [it, is_new] = known_.try_emplace({key, type}, 0);
  if (is_new) {
    it->second = new_rule(place.pointer, type == "object" || type == "array");
    work_.push_back({place, type, it->second});
  }
  return it->second;
}

void SchemaCompiler::write(const Work& work) {
  const SchemaPlace& place = work.place;
  const std::string& type = work.type;
  if (!type.empty()) {
    if (type == "object") return write_object(work.rule, place);
    if (type == "array") return write_list(work.rule, place);
    if (type == "string") return write_string(work.rule, place);
    if (type == "null" || type == "boolean") {
      const uint32_t start = rules_.add_state(work.rule), end = rules_.add_state(work.rule, true);
      for (const char* word : {"null", "true", "false"}) {
        if ((type == "null") == (word[0] == 'n')) rules_.add_bytes_to(start, word, end);
      }
      return;
    }
    return write_number(work.rule, place, type == "integer");
  }
  if (place.json->is_boolean() && !place.json->get<bool>()) {
    rules_.add_state(work.rule);  // nothing: it never ends
    return;
  }
  check_keywords(place);
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (place.has(keyword)) return write_alternatives(work.rule, place, keyword);
  }
  if (place.has("enum") || place.has("const")) return write_values(work.rule, place);
  std::vector<std::string> types = types_of(place);
  if (types.empty() && place.has("type")) {
    rules_.add_state(work.rule);
    return;
  }
  if (types.empty()) types.assign(std::begin(kAllTypes), std::end(kAllTypes));
  const bool number = std::find(types.begin(), types.end(), "number") != types.end();
  std::vector<uint32_t> choices;
  for (const std::string& one : types) {
    if (one != "integer" || !number) choices.push_back(rule_of_type(place, one));
  }
  write_choice(work.rule, choices);
}

void SchemaCompiler::write_choice(uint32_t rule, const std::vector<uint32_t>& choices) {
  const uint32_t start = rules_.add_state(rule), end = rules_.add_state(rule, true);
  std::vector<uint32_t> different = choices;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  for (const uint32_t choice : different) rules_.add_call(start, choice, end);
}

// What stands beside the alternatives holds for each of them.
void SchemaCompiler::write_alternatives(uint32_t rule, const SchemaPlace& place,
                                        const std::string& keyword) {
  const Json& list = *place.find(keyword);
  const SchemaPlace here = place.at(keyword);
  if (!list.is_array() || list.empty()) here.fail("expected a list of schemas");
  Json rest = Json::object();
  for (const auto& item : place.json->items()) {
    if (item.key() != keyword && is_assertion(item.key())) rest[item.key()] = item.value();
  }
  const SchemaPlace beside = {rest.empty() ? &any_value() : &source_.keep(rest), place.pointer};
  std::vector<uint32_t> choices;
  size_t number = 0;
  for (const Json& choice : list) {
    const SchemaPlace one = source_.resolved(here.at(std::to_string(number++), choice));
    choices.push_back(rule_of_type(source_.both(beside, one), ""));
  }
  write_choice(rule, choices);
}

void SchemaCompiler::write_values(uint32_t rule, const SchemaPlace& place) {
  add_plain(rules_, rule, one_of_values(values_of(place), budget_.limits().blanks, budget_));
}

}  // namespace tessera::serve::grammar
