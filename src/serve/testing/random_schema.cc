#include "serve/testing/random_schema.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "data/tokenizer/unicode/unicode.h"

namespace tessera::serve::testing {
namespace {

using Json = RandomSchema::Json;

struct Example {
  const char* pattern;
  const char* matches[3];
};
constexpr Example kPatterns[] = {
    {"^[a-z]{2,4}$", {"ab", "abc", "abcd"}},
    {"^\\d+(\\.\\d{1,2})?$", {"0", "12.5", "7.25"}},
    {"b+", {"b", "abba", "x b\ny"}},
    {"^(foo|bar)-[0-9A-F]*$", {"foo-", "bar-0F", "foo-12AB"}},
    {"^[^x]*$", {"", "\"quoted\"\\", "a\tb"}},
    {"^.?[ \\t]\\w$", {" a", "x _", "\"\t9"}},
    {"end$", {"end", "the end", "\n end"}},
};

}  // namespace

std::string RandomSchema::text(size_t min, size_t max) {
  static const uint32_t kCodes[] = {'a',  'Z',  '0',    ' ',    '"',    '\\',    '/',
                                    '\n', '\t', 1,      0x1F,   0x7F,   0xE9,    0x3B1,
                                    '{',  '}',  0x20AC, 0x6F22, 0xFFFD, 0x1F600, 0x10FFFF};
  std::string made;
  const size_t length = min + pick(max - min + 1);
  for (size_t i = 0; i < length; ++i) append_utf8(kCodes[pick(std::size(kCodes))], made);
  return made;
}

std::string RandomSchema::name() {
  static const char* const kNames[] = {"a",      "ab",    "abc",  "id", "",
                                       "na\"me", "größe", "名前", "n\n"};
  return kNames[pick(std::size(kNames))];
}

Json RandomSchema::string_schema() {
  Json made = {{"type", "string"}};
  if (pick(3) == 0) made["minLength"] = pick(4);
  if (pick(3) == 0) made["maxLength"] = 4 + pick(3);
  if (pick(3) == 0) made = {{"type", "string"}, {"pattern", kPatterns[pick(7)].pattern}};
  return made;
}

Json RandomSchema::number_schema(bool whole) {
  Json made = {{"type", whole ? "integer" : "number"}};
  const auto bound = [&]() -> Json {
    const int64_t size = static_cast<int64_t>(std::pow(10, pick(6)));
    const auto value = static_cast<int64_t>(random_() % static_cast<uint64_t>(2 * size)) - size;
    if (whole || pick(2) == 0) return value;
    return static_cast<double>(value) / 100;
  };
  const Json low = bound();
  if (pick(2) == 0) made[pick(2) == 0 ? "minimum" : "exclusiveMinimum"] = low;
  if (pick(2) == 0) {
    made[pick(2) == 0 ? "maximum" : "exclusiveMaximum"] = low.get<double>() + 2 + double(pick(500));
  }
  return made;
}

Json RandomSchema::scalar() {
  switch (pick(8)) {
    case 0:
      return {{"type", "null"}};
    case 1:
      return {{"type", "boolean"}};
    case 2:
      return number_schema(true);
    case 3:
      return number_schema(false);
    case 4:
      return {{"enum", Json::array({text(0, 5), "x", 3, nullptr, {{"k", {1, true}}, {"j", 2}}})}};
    case 5:
      return {{"const", text(0, 4)}};
    default:
      return string_schema();
  }
}

Json RandomSchema::object(int depth) {
  Json made = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
  for (size_t i = pick(5); i > 0; --i) {
    const std::string key = name();
    if (made["properties"].contains(key)) continue;
    made["properties"][key] = any_schema(depth - 1);
    if (pick(2) == 0) made["required"].push_back(key);
  }
  switch (pick(4)) {
    case 0:
      made["additionalProperties"] = false;
      break;
    case 1:
      made["additionalProperties"] = scalar();
      break;
    default:
      break;
  }
  return made;
}

Json RandomSchema::list(int depth) {
  Json made = {{"type", "array"}};
  if (pick(3) == 0) {
    for (size_t i = 1 + pick(3); i > 0; --i) made["prefixItems"].push_back(any_schema(depth - 1));
  }
  if (pick(4) != 0) made["items"] = any_schema(depth - 1);
  if (pick(2) == 0) made["minItems"] = pick(3);
  if (pick(2) == 0) made["maxItems"] = 2 + pick(4);
  return made;
}

Json RandomSchema::any_schema(int depth) {
  if (depth <= 0) return pick(4) == 0 ? Json{{"$ref", "#/$defs/leaf"}} : scalar();
  switch (pick(9)) {
    case 0:
    case 1:
      return object(depth);
    case 2:
      return list(depth);
    case 3:
      return {{"anyOf", Json::array({any_schema(depth - 1), any_schema(depth - 1)})}};
    case 4:
      return {{"$ref", "#/$defs/tree"}};
    case 5:
      return {{"type", Json::array({"string", "null", "integer"})}};
    case 6:
      if (pick(3) == 0) return pick(2) == 0 ? Json(true) : Json{{"type", "object"}};
      return {{"allOf", Json::array({object(0), {{"description", "the same"}}})}};
    default:
      return scalar();
  }
}

Json RandomSchema::schema() {
  Json made = any_schema(3);
  if (made.is_boolean()) made = Json::object();
  made["$defs"]["leaf"] = scalar();
  made["$defs"]["tree"] = {
      {"type", "object"},
      {"properties",
       {{"value", {{"$ref", "#/$defs/leaf"}}},
        {"children", {{"type", "array"}, {"items", {{"$ref", "#/$defs/tree"}}}}},
        {"next", {{"anyOf", {{{"type", "null"}}, {{"$ref", "#/$defs/tree"}}}}}}}},
      {"required", {"value"}}};
  return made;
}

Json RandomSchema::any_value(int depth) {
  switch (pick(depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return pick(2) == 0;
    case 2:
      return static_cast<int64_t>(pick(2000)) - 1000;
    case 3:
      return static_cast<double>(pick(100'000)) / 64;
    case 4:
      return text(0, 6);
    case 5: {
      Json made = Json::array();
      for (size_t i = pick(3); i > 0; --i) made.push_back(any_value(depth - 1));
      return made;
    }
    default: {
      Json made = Json::object();
      for (size_t i = pick(3); i > 0; --i) made[text(0, 3)] = any_value(depth - 1);
      return made;
    }
  }
}

std::string RandomSchema::matching(const std::string& pattern) {
  for (const Example& example : kPatterns) {
    if (pattern == example.pattern) return example.matches[pick(3)];
  }
  return "";
}

Json RandomSchema::object_value(const Json& schema, const Json& root, int depth) {
  Json made = Json::object();
  const Json named = schema.value("properties", Json::object());
  const Json required = schema.value("required", Json::array());
  for (const auto& item : named.items()) {
    const bool must = std::find(required.begin(), required.end(), item.key()) != required.end();
    if (must || (depth > 0 && pick(2) == 0)) {
      made[item.key()] = value(item.value(), root, depth - 1);
    }
  }
  const Json further = schema.value("additionalProperties", Json(!schema.contains("properties")));
  if (further == false) return made;
  for (size_t i = pick(3); i > 0; --i) {
    const std::string key = pick(2) == 0 ? name() : text(0, 3);
    if (!named.contains(key)) made[key] = value(further, root, depth - 1);
  }
  return made;
}

Json RandomSchema::list_value(const Json& schema, const Json& root, int depth) {
  Json made = Json::array();
  const Json first = schema.value("prefixItems", Json::array());
  const size_t min = schema.value("minItems", size_t{0});
  size_t max = schema.value("maxItems", min + 3);
  if (!schema.contains("items") && !first.empty()) max = std::min(max, std::max(min, first.size()));
  const size_t count = depth <= 0 ? min : min + pick(max - min + 1);
  for (size_t i = 0; i < count; ++i) {
    const Json item = i < first.size() ? first[i] : schema.value("items", Json(true));
    made.push_back(value(item, root, depth - 1));
  }
  return made;
}

Json RandomSchema::value(const Json& schema, const Json& root, int depth) {
  if (schema.is_boolean() || schema.empty()) return any_value(std::min(depth, 2));
  if (schema.contains("$ref")) {
    const std::string ref = schema["$ref"];
    return value(root.at(Json::json_pointer(ref.substr(1))), root, depth);
  }
  if (schema.contains("anyOf")) {
    const Json& list = schema["anyOf"];
    return value(list[depth <= 0 ? 0 : pick(list.size())], root, depth);
  }
  if (schema.contains("allOf")) return value(schema["allOf"][0], root, depth);
  if (schema.contains("const")) return schema["const"];
  if (schema.contains("enum")) return schema["enum"][pick(schema["enum"].size())];
  if (!schema.contains("type")) return any_value(std::min(depth, 2));
  const std::string type =
      schema["type"].is_array() ? schema["type"][pick(schema["type"].size())] : schema["type"];
  if (type == "null") return nullptr;
  if (type == "boolean") return pick(2) == 0;
  if (type == "object") return object_value(schema, root, depth);
  if (type == "array") return list_value(schema, root, depth);
  if (type == "string") {
    if (schema.contains("pattern")) return matching(schema["pattern"]);
    const size_t min = schema.value("minLength", size_t{0});
    return text(min, schema.value("maxLength", min + 4));
  }
  // Between the bounds, both sides of zero, the ends too.
  double low = schema.value("minimum", schema.value("exclusiveMinimum", -1e6));
  double high = schema.value("maximum", schema.value("exclusiveMaximum", 1e6));
  if (low > high) low = high - 1e6;
  const auto count = static_cast<size_t>((high - low) * 2) + 1;
  for (int tries = 0; tries < 100; ++tries) {
    double number = low + static_cast<double>(pick(count)) / 2;
    number = type == "integer" ? std::floor(number) : std::round(number * 100) / 100;
    if (tries > 50) number = std::floor((low + high) / 2);
    const bool fits =
        number >= schema.value("minimum", number) && number <= schema.value("maximum", number) &&
        (!schema.contains("exclusiveMinimum") || number > schema["exclusiveMinimum"]) &&
        (!schema.contains("exclusiveMaximum") || number < schema["exclusiveMaximum"]);
    if (!fits) continue;
    if (type == "integer") return static_cast<int64_t>(number);
    return number;
  }
  return low;
}

Json RandomSchema::document(const Json& schema) { return value(schema, schema, 4); }

}  // namespace tessera::serve::testing
