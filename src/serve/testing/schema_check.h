// A second opinion for tests: whether a document satisfies a schema, straight from the standard.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tessera::serve::testing {

// Knows the keywords that grammars do ("oneOf" as "anyOf"). Patterns must be
// what std::wregex takes as ECMA-262 does: no \s, whose characters it does not know.
bool satisfies(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value,
               const nlohmann::ordered_json& root);

}  // namespace tessera::serve::testing
