#include "serve/grammar/schema_source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::serve::grammar {
namespace {

// Beside those that are followed or put together here.
constexpr std::string_view kAssertions[] = {
    "type", "enum", "const", "anyOf", "oneOf", "properties", "required", "additionalProperties",
    "items", "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "pattern", "format",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "$ref", "allOf",
    // Refused by name where they are met.
    "not", "if", "dependentRequired", "dependentSchemas", "dependencies", "patternProperties",
    "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties", "unevaluatedItems",
    "contains", "uniqueItems", "multipleOf", "additionalItems", "$dynamicRef", "$recursiveRef"};

constexpr int kMostHops = 200;  // of references and "allOf" inside each other

std::string escaped(std::string_view key) {
  std::string made;
  for (const char c : key) {
    if (c == '~') {
      made += "~0";
    } else if (c == '/') {
      made += "~1";
    } else {
      made += c;
    }
  }
  return made;
}

// As a message shows it.
std::string in_message(const std::string& pointer) {
  const std::string quoted = in_quotes(pointer, 200);
  return quoted.substr(1, quoted.size() - 2);
}

int deepest(const Json& json, int most) {
  if (!json.is_structured() || most <= 0) return 0;
  int depth = 0;
  for (const Json& item : json) depth = std::max(depth, deepest(item, most - 1));
  return depth + 1;
}

// What copying or comparing it costs.
int64_t cost_of(const Json& json) {
  int64_t cost = 16 + (json.is_string() ? std::ssize(json.get_ref<const std::string&>()) : 0);
  if (json.is_structured()) {
    for (const Json& item : json) cost += cost_of(item);
  }
  return cost;
}

std::string unescaped(std::string_view part) {
  std::string made;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1')) {
      made += part[++i] == '0' ? '~' : '/';
    } else if (part[i] == '%' && i + 2 < part.size()) {
      made +=
          static_cast<char>(std::strtoul(std::string(part.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      made += part[i];
    }
  }
  return made;
}

// The type of both, where each is a name or a list of names.
Json common_types(const Json& a, const Json& b) {
  const auto names = [](const Json& json) {
    return json.is_array() ? json : Json(Json::array({json}));
  };
  const Json left = names(a), right = names(b);
  Json common = Json::array();
  const auto holds = [](const Json& list, const char* name) {
    return std::find(list.begin(), list.end(), Json(name)) != list.end();
  };
  for (const Json& name : left) {
    const bool both = std::find(right.begin(), right.end(), name) != right.end();
    if (both || (name == "integer" && holds(right, "number"))) {
      common.push_back(name);
    } else if (name == "number" && holds(right, "integer")) {
      common.push_back("integer");
    }
  }
  return common;
}

bool is_least(std::string_view keyword) {
  return keyword == "minimum" || keyword == "exclusiveMinimum" || keyword == "minLength" ||
         keyword == "minItems";
}
bool is_most(std::string_view keyword) {
  return keyword == "maximum" || keyword == "exclusiveMaximum" || keyword == "maxLength" ||
         keyword == "maxItems";
}

// Names that one part would not allow: it says what further properties are, and another one has
// them.
void check_closed(const SchemaPlace& closed, const SchemaPlace& other) {
  const Json* more = closed.find("additionalProperties");
  const Json* names = other.find("properties");
  if (more == nullptr || *more == true || names == nullptr || !names->is_object()) return;
  const Json* own = closed.find("properties");
  for (const auto& item : names->items()) {
    if (own != nullptr && own->is_object() && own->contains(item.key())) continue;
    closed.at("additionalProperties")
        .fail(fmt::format("another part of 'allOf' has the property {}, which this rules: name all "
                          "properties in one part, or leave 'additionalProperties' out",
                          in_quotes(item.key())));
  }
}

}  // namespace

void SchemaPlace::fail(std::string_view what) const {
  throw ConfigError(fmt::format("{}: {}", in_words(), what));
}

std::string SchemaPlace::in_words() const {
  return fmt::format("schema at '{}'", in_message(pointer));
}

bool SchemaPlace::has(std::string_view key) const { return find(key) != nullptr; }

const Json* SchemaPlace::find(std::string_view key) const {
  if (!json->is_object()) return nullptr;
  const auto it = json->find(std::string(key));
  return it == json->end() ? nullptr : &*it;
}

SchemaPlace SchemaPlace::at(std::string_view key) const {
  const Json* value = find(key);
  return at(key, value == nullptr ? *json : *value);
}

SchemaPlace SchemaPlace::at(std::string_view key, const Json& value) const {
  return {&value, pointer + "/" + escaped(key)};
}

bool is_assertion(std::string_view keyword) {
  return std::find(std::begin(kAssertions), std::end(kAssertions), keyword) !=
         std::end(kAssertions);
}

SchemaSource::SchemaSource(const Json& root, Budget& budget) : root_(&root), budget_(budget) {
  const GrammarLimits& limits = budget.limits();
  require_config(deepest(root, limits.schema_depth + 1) <= limits.schema_depth,
                 "schema: nested deeper than {} (limit 'schema_depth'): move parts of it to "
                 "'$defs'",
                 limits.schema_depth);
  const auto bytes =
      static_cast<int64_t>(root.dump(-1, ' ', false, Json::error_handler_t::replace).size());
  require_config(bytes <= limits.schema_bytes,
                 "schema: {} bytes, more than the limit 'schema_bytes' of {}", bytes,
                 limits.schema_bytes);
}

SchemaPlace SchemaSource::target_of(const SchemaPlace& place) {
  const Json& ref = *place.find("$ref");
  const SchemaPlace here = place.at("$ref");
  if (!ref.is_string()) here.fail("expected a text");
  const std::string& text = ref.get_ref<const std::string&>();
  if (const auto known = targets_.find(text); known != targets_.end()) return known->second;
  if (text != "#" && !text.starts_with("#/")) {
    here.fail(
        fmt::format("{} is not in this schema: only references such as '#/$defs/NAME' are "
                    "supported",
                    in_quotes(text)));
  }
  SchemaPlace target = root();
  if (text != "#") {
    for (const std::string_view part : split(std::string_view(text).substr(2), '/')) {
      budget_.step();
      const std::string key = unescaped(part);
      const Json* next = nullptr;
      if (target.json->is_object()) {
        next = target.find(key);
      } else if (target.json->is_array() && !key.empty() && key.size() < 8 &&
                 key.find_first_not_of("0123456789") == key.npos &&
                 std::stoul(key) < target.json->size()) {
        next = &(*target.json)[std::stoul(key)];
      }
      if (next == nullptr) here.fail(fmt::format("{} leads nowhere", in_quotes(text)));
      target = target.at(key, *next);
    }
  }
  targets_.emplace(text, target);
  return target;
}

SchemaPlace SchemaSource::resolved(const SchemaPlace& place) {
  if (const auto known = resolved_.find(place.json); known != resolved_.end()) {
    return known->second;
  }
  if (++depth_ > kMostHops) {
    place.fail(
        fmt::format("more than {} references and 'allOf' lead to each other: look for one "
                    "that refers to itself",
                    kMostHops));
  }
  SchemaPlace found = find_resolved(place);
  --depth_;
  resolved_.emplace(place.json, found);
  return found;
}

SchemaPlace SchemaSource::find_resolved(const SchemaPlace& place) {
  budget_.step();
  if (place.json->is_boolean()) return place;
  if (!place.json->is_object()) place.fail("expected a schema: an object, true or false");
  if (!place.has("$ref") && !place.has("allOf")) return place;
  Json rest = Json::object();
  for (const auto& item : place.json->items()) {
    budget_.step();
    if (item.key() != "$ref" && item.key() != "allOf" && is_assertion(item.key())) {
      rest[item.key()] = item.value();
    }
  }
  SchemaPlace all = {&keep(true), place.pointer};
  if (!rest.empty()) all.json = &keep(std::move(rest));
  if (place.has("$ref")) all = both(resolved(target_of(place)), all);
  if (const Json* parts = place.find("allOf")) {
    const SchemaPlace list = place.at("allOf");
    if (!parts->is_array() || parts->empty()) list.fail("expected a list of schemas");
    size_t number = 0;
    for (const Json& part : *parts) {
      all = both(all, resolved(list.at(std::to_string(number++), part)));
    }
  }
  return all;
}

SchemaPlace SchemaSource::both(const SchemaPlace& a, const SchemaPlace& b) {
  if (a.json->is_boolean()) return a.json->get<bool>() ? b : a;
  if (b.json->is_boolean()) return b.json->get<bool>() ? a : b;
  check_closed(a, b);
  check_closed(b, a);
  budget_.step(cost_of(*a.json) + cost_of(*b.json));
  Json merged = *a.json;
  for (const auto& item : b.json->items()) {
    if (is_assertion(item.key())) merge_keyword(merged, a, b, item.key(), item.value());
  }
  // One that was made before is the same one, so that what refers to itself comes to an end.
  const auto [it, is_new] = interned_.try_emplace(merged.dump(), nullptr);
  if (is_new) it->second = &keep(std::move(merged));
  return {it->second, b.pointer};
}

void SchemaSource::merge_keyword(Json& into, const SchemaPlace& a, const SchemaPlace& b,
                                 const std::string& keyword, const Json& value) {
  if (!into.contains(keyword) || into[keyword] == value) {
    into[keyword] = value;
    return;
  }
  Json& own = into[keyword];
  const bool objects = own.is_object() && value.is_object();
  if (keyword == "properties" && objects) {
    for (const auto& item : value.items()) {
      budget_.step(1 + static_cast<int64_t>(own.size()));
      if (!own.contains(item.key()) || own[item.key()] == item.value()) {
        own[item.key()] = item.value();
      } else {
        own[item.key()] = {{"allOf", Json::array({own[item.key()], item.value()})}};
      }
    }
  } else if (keyword == "required" && own.is_array() && value.is_array()) {
    own.insert(own.end(), value.begin(), value.end());
  } else if (keyword == "type") {
    own = common_types(own, value);
  } else if (keyword == "items") {
    own = {{"allOf", Json::array({own, value})}};
  } else if (is_least(keyword) && own.is_number() && value.is_number()) {
    if (own < value) own = value;
  } else if (is_most(keyword) && own.is_number() && value.is_number()) {
    if (value < own) own = value;
  } else {
    b.at(keyword).fail(fmt::format(
        "'{}' is also at '{}', with another value, and both must hold: this is supported for "
        "properties, required, type, items, and least and most values",
        keyword, a.pointer));
  }
}

}  // namespace tessera::serve::grammar
