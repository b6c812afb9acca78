// A schema as one object of keywords for each place: references followed, "allOf" put together.
#pragma once

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>

#include "serve/grammar/budget.h"

namespace tessera::serve::grammar {

using Json = nlohmann::ordered_json;

// A schema and where it stands: a JSON pointer, for messages.
struct SchemaPlace {
  const Json* json = nullptr;
  std::string pointer;

  [[noreturn]] void fail(std::string_view what) const;
  [[nodiscard]] std::string in_words() const;  // "schema at '#/...'"
  [[nodiscard]] bool has(std::string_view key) const;
  // Null where the keyword is absent.
  [[nodiscard]] const Json* find(std::string_view key) const;
  [[nodiscard]] SchemaPlace at(std::string_view key) const;
  [[nodiscard]] SchemaPlace at(std::string_view key, const Json& value) const;
};

// Whether a keyword says what is valid: all others are annotations, and ignored.
bool is_assertion(std::string_view keyword);

// Owns the schemas that it makes: places stay valid as long as it lives.
class SchemaSource {
 public:
  // Throws ConfigError for a schema that is too large or too deep.
  SchemaSource(const Json& root, Budget& budget);

  // true, false, or an object without "$ref" and "allOf". The same place gives the same object.
  SchemaPlace resolved(const SchemaPlace& place);
  // What satisfies both; both are resolved.
  SchemaPlace both(const SchemaPlace& a, const SchemaPlace& b);
  // Owned here.
  const Json& keep(Json json) { return made_.emplace_back(std::move(json)); }
  [[nodiscard]] SchemaPlace root() const { return {root_, "#"}; }

 private:
  SchemaPlace target_of(const SchemaPlace& place);
  SchemaPlace find_resolved(const SchemaPlace& place);
  void merge_keyword(Json& into, const SchemaPlace& a, const SchemaPlace& b,
                     const std::string& keyword, const Json& value);

  const Json* root_;
  Budget& budget_;
  std::deque<Json> made_;
  std::unordered_map<const Json*, SchemaPlace> resolved_;
  std::unordered_map<std::string, SchemaPlace> targets_;
  std::unordered_map<std::string, const Json*> interned_;
  int depth_ = 0;  // of resolved() inside itself
};

}  // namespace tessera::serve::grammar
