// Schemas and documents that satisfy them, at random: for tests.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace tessera::serve::testing {

class RandomSchema {
 public:
  using Json = nlohmann::ordered_json;
  explicit RandomSchema(uint64_t seed) : random_(seed) {}

  // With every keyword that grammars know; some refer to themselves.
  Json schema();
  // One that satisfies `schema`, with properties in the order in which grammars write them.
  Json document(const Json& schema);

  size_t pick(size_t count) { return static_cast<size_t>(random_() % count); }

 private:
  Json any_schema(int depth);
  Json scalar();
  Json object(int depth);
  Json list(int depth);
  Json string_schema();
  Json number_schema(bool whole);
  Json value(const Json& schema, const Json& root, int depth);
  Json any_value(int depth);
  Json object_value(const Json& schema, const Json& root, int depth);
  Json list_value(const Json& schema, const Json& root, int depth);
  std::string text(size_t min, size_t max);
  std::string name();
  std::string matching(const std::string& pattern);

  std::mt19937_64 random_;
};

}  // namespace tessera::serve::testing
