// What nearly every source would compile of nlohmann's JSON is compiled once, in json_templates.cc.
// It is read with the common headers (cmake/unity.cmake) alone: no source includes it, and none
// counts on it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// TESSERA_JSON_TEMPLATES(extern) says that they are elsewhere, TESSERA_JSON_TEMPLATES() that they
// are here.
#define TESSERA_JSON_TEMPLATES_OF(where, Json)                            \
  where template class nlohmann::detail::serializer<Json>;                \
  where template class nlohmann::detail::lexer<Json, tessera::JsonText>;  \
  where template class nlohmann::detail::parser<Json, tessera::JsonText>; \
  where template class std::vector<Json>;
#define TESSERA_JSON_TEMPLATES(where)                               \
  where template class nlohmann::basic_json<>;                      \
  where template class nlohmann::basic_json<nlohmann::ordered_map>; \
  TESSERA_JSON_TEMPLATES_OF(where, nlohmann::json)                  \
  TESSERA_JSON_TEMPLATES_OF(where, nlohmann::ordered_json)

namespace tessera {
using JsonText = nlohmann::detail::iterator_input_adapter<std::string::const_iterator>;
}

TESSERA_JSON_TEMPLATES(extern)
