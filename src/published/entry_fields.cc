#include "published/entry_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/parse_real.h"
#include "published/words.h"

namespace tessera {

using nlohmann::json;

EntryFields::EntryFields(const json& entry, const char* name) : name_(name) {
  static const json kEmpty = json::object();
  const auto found = entry.find(name);
  object_ = found != entry.end() && found->is_object() ? &*found : &kEmpty;
}

const json* EntryFields::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> EntryFields::number(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  if (!value->is_string()) return std::nullopt;
  return whole_real(value->get_ref<const std::string&>());
}

std::optional<int64_t> EntryFields::whole(const char* key) const {
  const std::optional<double> value = number(key);
  if (!value) return std::nullopt;
  require_config(*value >= 0 && *value <= 1e12, "{}.{} is {:g}: from 0 to 1e12 is expected", name_,
                 key, *value);
  return static_cast<int64_t>(*value);
}

std::optional<int64_t> EntryFields::count(const char* key) const {
  const std::optional<double> value = number(key);
  if (!value) return std::nullopt;
  require_config(*value >= 1 && *value <= 1e12 && *value == std::floor(*value),
                 "{}.{} is {:g}: a whole number from 1 to 1e12 is expected", name_, key, *value);
  return static_cast<int64_t>(*value);
}

std::optional<double> EntryFields::real(const char* key) const {
  const std::optional<double> value = number(key);
  if (!value) return std::nullopt;
  require_config(*value > 1e-30 && *value < 1e30, "{}.{} is {:g}: from 1e-30 to 1e30 is expected",
                 name_, key, *value);
  return value;
}

std::string EntryFields::text(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return "";
  if (value->is_boolean()) return value->get<bool>() ? "true" : "false";
  return value->is_string() ? lower(value->get<std::string>()) : "";
}

bool EntryFields::yes(const char* key) const {
  const json* value = find(key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

int64_t EntryFields::need(const char* key) const {
  const std::optional<int64_t> value = whole(key);
  require_config(value.has_value() && *value > 0, "{}.{} is not given", name_, key);
  return *value;
}

}  // namespace tessera
