// Rules for values without parts: what they are written as.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/grammar/automaton.h"
#include "serve/grammar/rules.h"

namespace tessera::serve::grammar {

// Any string of `min` to `max` characters, with every escape that JSON has.
void add_free_string(RuleBuilder& rules, uint32_t rule);
// What `inside` reads, between quotes.
void add_quoted(RuleBuilder& rules, uint32_t rule, const Dfa& inside);
void add_plain(RuleBuilder& rules, uint32_t rule, const Dfa& dfa);

// Strings in their canonical spelling that are none of `names`: keys of further properties.
Dfa strings_but(const std::vector<std::string>& names, Budget& budget);

// One of these values, in the order that their objects have; blanks as in all texts.
Dfa one_of_values(const std::vector<const nlohmann::ordered_json*>& values, bool blanks,
                  Budget& budget);

}  // namespace tessera::serve::grammar
