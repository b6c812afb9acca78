// From a schema to rules.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "serve/grammar/numbers.h"
#include "serve/grammar/rules.h"
#include "serve/grammar/schema_source.h"
#include "serve/grammar/schema_values.h"

namespace tessera::serve::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& schema, const GrammarLimits& limits)
      : budget_(limits), source_(schema, budget_) {}

  Rules compile();

 private:
  struct Work {
    SchemaPlace place;
    std::string type;  // empty: whatever the schema says
    uint32_t rule = 0;
  };

  // The rule of a schema; made later, so that schemas may refer to themselves.
  uint32_t rule_of(const SchemaPlace& place);
  uint32_t rule_of_type(const SchemaPlace& place, const std::string& type);
  uint32_t new_rule(const std::string& name, bool nests = false);
  void write(const Work& work);
  void write_choice(uint32_t rule, const std::vector<uint32_t>& choices);
  void write_alternatives(uint32_t rule, const SchemaPlace& place, const std::string& keyword);
  void write_values(uint32_t rule, const SchemaPlace& place);
  void write_object(uint32_t rule, const SchemaPlace& place);
  void write_list(uint32_t rule, const SchemaPlace& place);
  void write_string(uint32_t rule, const SchemaPlace& place);
  void write_number(uint32_t rule, const SchemaPlace& place, bool whole);
  // A sign, a blank perhaps, and a value.
  void call_after_sign(uint32_t from, char sign, Guard guard, uint32_t value, uint32_t to,
                       bool counts = false);
  void check_size() const;

  Budget budget_;
  SchemaSource source_;
  RuleBuilder rules_;
  std::vector<std::string> names_;  // of rules, for messages
  std::map<std::pair<const Json*, std::string>, uint32_t> known_;
  std::map<std::string, Dfa> strings_;  // by pattern and length
  std::vector<Work> work_;
};

}  // namespace tessera::serve::grammar
