// For tests: schemas that a stranger may send to make a server work.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::serve::testing {

// Each definition has the next one twice, so that 2^depth of them are written out.
inline nlohmann::ordered_json doubling_references(int depth) {
  nlohmann::ordered_json definitions;
  for (int i = 0; i < depth; ++i) {
    const nlohmann::ordered_json next = {{"$ref", fmt::format("#/$defs/d{}", i + 1)}};
    definitions[fmt::format("d{}", i)] = {{"type", "object"},
                                          {"properties", {{"a", next}, {"b", next}}},
                                          {"required", {"a", "b"}},
                                          {"additionalProperties", false}};
  }
  definitions[fmt::format("d{}", depth)] = {{"type", "boolean"}};
  return {{"$ref", "#/$defs/d0"}, {"$defs", std::move(definitions)}};
}

// A pattern whose repetitions multiply: ((a{n}){n}){n} ...
inline nlohmann::ordered_json nested_repetition(int depth, int times) {
  std::string pattern = "[a-z]";
  for (int i = 0; i < depth; ++i) pattern = fmt::format("({}){{{}}}", pattern, times);
  return {{"type", "string"}, {"pattern", "^" + pattern + "$"}};
}

inline nlohmann::ordered_json nested_lists(int depth) {
  nlohmann::ordered_json schema = {{"type", "null"}};
  for (int i = 0; i < depth; ++i) schema = {{"type", "array"}, {"items", std::move(schema)}};
  return schema;
}

inline nlohmann::ordered_json many_values(int values) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (int i = 0; i < values; ++i) list.push_back(fmt::format("{}-value-{}", i * 7919 % values, i));
  return {{"enum", std::move(list)}};
}

inline nlohmann::ordered_json optional_properties(int properties) {
  nlohmann::ordered_json all;
  for (int i = 0; i < properties; ++i) all[fmt::format("p{}", i)] = {{"type", "boolean"}};
  return {{"type", "object"}, {"properties", std::move(all)}, {"additionalProperties", false}};
}

struct SchemaBomb {
  std::string name;
  nlohmann::ordered_json schema;
  std::string limit;  // a word of the message
};

inline std::vector<SchemaBomb> schema_bombs() {
  return {{"repetitions that multiply", nested_repetition(5, 200), "limit"},
          {"lists in lists", nested_lists(200), "depth"},
          {"a megabyte of values", many_values(60'000), "bytes"},
          {"optional properties", optional_properties(4'000), "limit"}};
}

}  // namespace tessera::serve::testing
