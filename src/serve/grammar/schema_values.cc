#include "serve/grammar/schema_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "base/text/text.h"

namespace tessera::serve::grammar {
namespace {

struct Refusal {
  std::string_view keyword;
  std::string_view instead;
};
constexpr Refusal kRefusals[] = {
    {"not", "say what is allowed instead"},
    {"if", "use anyOf with one schema for each case"},
    {"dependentRequired", "use anyOf with one schema for each case"},
    {"dependentSchemas", "use anyOf with one schema for each case"},
    {"dependencies", "use anyOf with one schema for each case"},
    {"patternProperties", "name the properties, or use additionalProperties"},
    {"propertyNames", "name the properties"},
    {"minProperties", "name properties in required"},
    {"maxProperties", "name the properties, and set additionalProperties to false"},
    {"unevaluatedProperties", "use additionalProperties"},
    {"unevaluatedItems", "use items"},
    {"contains", "say in items what every item is"},
    {"multipleOf", "use type integer, or a list of values in enum"},
    {"additionalItems", "use prefixItems and items"},
    {"$dynamicRef", "use $ref"},
    {"$recursiveRef", "use $ref"}};

constexpr const char* kTypes[] = {"object",  "array",   "string", "number",
                                  "integer", "boolean", "null"};

struct AboutType {
  std::string_view keyword;
  const char* type;
};
constexpr AboutType kAbout[] = {
    {"properties", "object"}, {"required", "object"},         {"additionalProperties", "object"},
    {"items", "array"},       {"prefixItems", "array"},       {"minItems", "array"},
    {"maxItems", "array"},    {"minLength", "string"},        {"maxLength", "string"},
    {"pattern", "string"},    {"format", "string"},           {"minimum", "number"},
    {"maximum", "number"},    {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"}};

bool has_type(const Json& value, std::string_view type) {
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
  }
  if (type == "number") return value.is_number();
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  return type == value.type_name();
}

Bound bound_at(const SchemaPlace& place, std::string_view keyword, bool inclusive) {
  const Json& value = *place.find(keyword);
  const SchemaPlace here = place.at(keyword);
  if (!value.is_number()) here.fail("expected a number");
  std::string text;
  if (value.is_number_float()) {
    std::array<char, 64> buffer{};
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value.get<double>());
    text.assign(buffer.data(), end.ptr);
  } else {
    text = value.dump();
  }
  const std::optional<Decimal> decimal = decimal_of(text);
  if (!decimal) here.fail("expected a number with 40 digits at most on either side of the point");
  return {*decimal, inclusive};
}

// The one of two bounds on the same side that allows less.
std::optional<Bound> tighter(std::optional<Bound> a, const std::optional<Bound>& b, int side) {
  if (!a || !b) return a ? a : b;
  const int order = compare_decimals(b->value, a->value) * side;
  if (order > 0 || (order == 0 && !b->inclusive)) a = b;
  return a;
}

std::optional<Bound> bound_of(const SchemaPlace& place, std::string_view inclusive,
                              std::string_view exclusive, int side) {
  std::optional<Bound> bound, strict;
  if (place.has(inclusive)) bound = bound_at(place, inclusive, true);
  if (place.has(exclusive)) strict = bound_at(place, exclusive, false);
  return tighter(bound, strict, side);
}

std::optional<SchemaPlace> further_of(const SchemaPlace& place) {
  const Json* more = place.find("additionalProperties");
  if (more != nullptr && *more == false) return std::nullopt;
  if (more != nullptr) return place.at("additionalProperties");
  // Absent: anything is valid, and to write nothing is too. Where nothing is named, the schema asks
  // for objects of any kind.
  if (place.has("properties")) return std::nullopt;
  return SchemaPlace{&any_value(), place.pointer};
}

}  // namespace

const Json& any_value() {
  static const Json any = true;
  return any;
}

void check_keywords(const SchemaPlace& place) {
  for (const Refusal& refusal : kRefusals) {
    if (place.has(refusal.keyword)) {
      place.at(refusal.keyword)
          .fail(fmt::format("'{}' is not supported: {}", refusal.keyword, refusal.instead));
    }
  }
  if (const Json* unique = place.find("uniqueItems"); unique != nullptr && *unique != false) {
    place.at("uniqueItems")
        .fail("'uniqueItems' is not supported: leave it out, or set it to false");
  }
}

std::vector<std::string> types_of(const SchemaPlace& place) {
  std::vector<std::string> types;
  const auto add = [&](const std::string& type) {
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  };
  const Json* said = place.find("type");
  if (said == nullptr) {
    for (const AboutType& about : kAbout) {
      if (place.has(about.keyword)) add(about.type);
    }
    return types;
  }
  const Json names = said->is_array() ? *said : Json(Json::array({*said}));
  for (const Json& name : names) {
    const auto* known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const char* type) {
      return name.is_string() && name.get_ref<const std::string&>() == type;
    });
    if (known == std::end(kTypes)) {
      place.at("type").fail(
          "expected object, array, string, number, integer, boolean or null, or a list of them");
    }
    add(*known);
  }
  return types;
}

int64_t count_at(const SchemaPlace& place, std::string_view keyword, int64_t otherwise) {
  const Json* value = place.find(keyword);
  if (value == nullptr) return otherwise;
  constexpr double kMost = 1'000'000'000;
  const double count = value->is_number() ? value->get<double>() : -1;
  if (!(count >= 0) || count > kMost || std::floor(count) != count) {
    place.at(keyword).fail("expected a whole number from 0 to 1,000,000,000");
  }
  return static_cast<int64_t>(count);
}

NumberRange range_of(const SchemaPlace& place) {
  NumberRange range;
  range.low = bound_of(place, "minimum", "exclusiveMinimum", 1);
  range.high = bound_of(place, "maximum", "exclusiveMaximum", -1);
  return range;
}

std::vector<const Json*> values_of(const SchemaPlace& place) {
  for (const auto& item : place.json->items()) {
    const std::string& key = item.key();
    if (is_assertion(key) && key != "type" && key != "enum" && key != "const") {
      place.at(key).fail(fmt::format(
          "'{}' beside 'enum' or 'const' is not supported: list the values that it allows", key));
    }
  }
  const Json* list = place.find("enum");
  if (list != nullptr && (!list->is_array() || list->empty())) {
    place.at("enum").fail("expected a list of values");
  }
  const Json* only = place.find("const");
  std::vector<const Json*> values;
  const std::vector<std::string> types = types_of(place);
  const auto offer = [&](const Json& value) {
    const bool fits =
        types.empty() || std::any_of(types.begin(), types.end(),
                                     [&](const auto& type) { return has_type(value, type); });
    if (fits && (only == nullptr || value == *only)) values.push_back(&value);
  };
  if (list == nullptr) {
    offer(*only);
  } else {
    for (const Json& value : *list) offer(value);
  }
  if (values.empty()) place.fail("none of its values satisfies the rest of the schema");
  return values;
}

Properties properties_of(const SchemaPlace& place) {
  Properties made;
  made.further = further_of(place);
  std::unordered_map<std::string, size_t> index;
  if (const Json* named = place.find("properties")) {
    const SchemaPlace here = place.at("properties");
    if (!named->is_object()) here.fail("expected an object of schemas");
    for (const auto& item : named->items()) {
      index.emplace(item.key(), made.list.size());
      made.list.push_back({item.key(), here.at(item.key(), item.value()), false});
    }
  }
  const Json* required = place.find("required");
  if (required == nullptr) return made;
  const SchemaPlace here = place.at("required");
  if (!required->is_array()) here.fail("expected a list of names");
  for (const Json& name : *required) {
    if (!name.is_string()) here.fail("expected a list of names");
    const std::string& key = name.get_ref<const std::string&>();
    const auto [it, is_new] = index.try_emplace(key, made.list.size());
    if (is_new) {
      const Json* more = place.find("additionalProperties");
      if (more != nullptr && *more == false) {
        here.fail(fmt::format("{} is not among the properties, and no others are allowed",
                              in_quotes(key)));
      }
      const SchemaPlace any = {&any_value(), place.pointer};
      made.list.push_back({key, more == nullptr ? any : place.at("additionalProperties"), true});
    }
    made.list[it->second].required = true;
  }
  return made;
}

Items items_of(const SchemaPlace& place) {
  Items made;
  made.min = count_at(place, "minItems", 0);
  made.max = count_at(place, "maxItems", -1);
  if (made.max >= 0 && made.max < made.min) place.at("maxItems").fail("it is below 'minItems'");
  if (const Json* list = place.find("prefixItems")) {
    const SchemaPlace here = place.at("prefixItems");
    if (!list->is_array() || list->empty()) here.fail("expected a list of schemas");
    size_t number = 0;
    for (const Json& item : *list) {
      made.first.push_back(here.at(std::to_string(number++), item));
    }
  }
  if (const Json* rest = place.find("items")) {
    const SchemaPlace here = place.at("items");
    if (rest->is_array()) here.fail("a list of schemas: write it as prefixItems");
    if (*rest != false) made.rest = here;
  } else if (made.first.empty() || made.min > std::ssize(made.first)) {
    made.rest = SchemaPlace{&any_value(), place.pointer};
  }
  return made;
}

}  // namespace tessera::serve::grammar
