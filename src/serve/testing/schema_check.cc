#include "serve/testing/schema_check.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "data/tokenizer/unicode/unicode.h"

namespace tessera::serve::testing {
namespace {

using Json = nlohmann::ordered_json;

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
  }
  if (type == "number") return value.is_number();
  return value.type_name() == type;
}

bool types_hold(const Json& type, const Json& value) {
  if (type.is_string()) return is_of_type(value, type);
  return std::any_of(type.begin(), type.end(),
                     [&](const Json& one) { return is_of_type(value, one); });
}

bool list_holds(const Json& schema, const Json& value, const Json& root) {
  if (value.size() < schema.value("minItems", size_t{0})) return false;
  if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<size_t>()) return false;
  const size_t first = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
  for (size_t i = 0; i < value.size(); ++i) {
    if (i < first && !satisfies(schema["prefixItems"][i], value[i], root)) return false;
    if (i >= first && schema.contains("items") && !satisfies(schema["items"], value[i], root)) {
      return false;
    }
  }
  return true;
}

bool object_holds(const Json& schema, const Json& value, const Json& root) {
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  const Json named = schema.value("properties", Json::object());
  for (const auto& item : value.items()) {
    if (named.contains(item.key())) {
      if (!satisfies(named[item.key()], item.value(), root)) return false;
    } else if (schema.contains("additionalProperties") &&
               !satisfies(schema["additionalProperties"], item.value(), root)) {
      return false;
    }
  }
  return true;
}

std::wstring wide(const std::string& text) {
  std::wstring made;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    made += static_cast<wchar_t>(point.code);
    at += point.bytes;
  }
  return made;
}

bool string_holds(const Json& schema, const std::string& value) {
  const size_t length = count_code_points(value);
  if (length < schema.value("minLength", size_t{0})) return false;
  if (schema.contains("maxLength") && length > schema["maxLength"].get<size_t>()) return false;
  return !schema.contains("pattern") ||
         std::regex_search(wide(value), std::wregex(wide(schema["pattern"])));
}

bool number_holds(const Json& schema, double value) {
  if (schema.contains("minimum") && value < schema["minimum"].get<double>()) return false;
  if (schema.contains("maximum") && value > schema["maximum"].get<double>()) return false;
  if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"].get<double>()) {
    return false;
  }
  return !schema.contains("exclusiveMaximum") || value < schema["exclusiveMaximum"].get<double>();
}

template <typename List>
bool any_holds(const List& list, const Json& value, const Json& root) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Json& one) { return satisfies(one, value, root); });
}

}  // namespace

bool satisfies(const Json& schema, const Json& value, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const std::string ref = schema["$ref"];
    if (!satisfies(root.at(Json::json_pointer(ref.substr(1))), value, root)) return false;
  }
  for (const Json& one : schema.value("allOf", Json::array())) {
    if (!satisfies(one, value, root)) return false;
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (schema.contains(keyword) && !any_holds(schema[keyword], value, root)) return false;
  }
  if (schema.contains("type") && !types_hold(schema["type"], value)) return false;
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("enum")) {
    const Json& list = schema["enum"];
    if (std::find(list.begin(), list.end(), value) == list.end()) return false;
  }
  if (value.is_array()) return list_holds(schema, value, root);
  if (value.is_object()) return object_holds(schema, value, root);
  if (value.is_string()) return string_holds(schema, value.get_ref<const std::string&>());
  return !value.is_number() || number_holds(schema, value.get<double>());
}

}  // namespace tessera::serve::testing
