#include "published/fields.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "published/words.h"

namespace tessera {

using nlohmann::json;

Fields::Fields(const json& entry, const char* name) : name_(name) {
  static const json kEmpty = json::object();
  const auto found = entry.find(name);
  object_ = found != entry.end() && found->is_object() ? &*found : &kEmpty;
}

const json* Fields::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  if (!value->is_string()) return std::nullopt;
  const auto& text = value->get_ref<const std::string&>();
  double result = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  const bool whole = error == std::errc() && stop == text.data() + text.size();
  return whole ? std::optional(result) : std::nullopt;
}

std::optional<int64_t> Fields::whole(const char* key) const {
  const std::optional<double> value = number(key);
  if (!value) return std::nullopt;
  require_config(*value >= 0 && *value <= 1e12, "{}.{} is {:g}: from 0 to 1e12 is expected", name_,
                 key, *value);
  return static_cast<int64_t>(*value);
}

std::optional<double> Fields::real(const char* key) const {
  const std::optional<double> value = number(key);
  if (!value) return std::nullopt;
  require_config(*value > 1e-30 && *value < 1e30, "{}.{} is {:g}: from 1e-30 to 1e30 is expected",
                 name_, key, *value);
  return value;
}

std::string Fields::text(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return "";
  if (value->is_boolean()) return value->get<bool>() ? "true" : "false";
  return value->is_string() ? lower(value->get<std::string>()) : "";
}

bool Fields::yes(const char* key) const {
  const json* value = find(key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

int64_t Fields::need(const char* key) const {
  const std::optional<int64_t> value = whole(key);
  require_config(value.has_value() && *value > 0, "{}.{} is not given", name_, key);
  return *value;
}

}  // namespace tessera
