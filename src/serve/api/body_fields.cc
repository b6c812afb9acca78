#include "serve/api/body_fields.h"

#include <algorithm>
#include <cmath>

#include "base/text/printable.h"
#include "base/text/text.h"
#include "serve/api/api_error.h"

namespace tessera::serve {

std::string shown_value(const nlohmann::ordered_json& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  return shortened(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 60);
}

BodyFields::BodyFields(const Json& object, std::string inside)
    : object_(object), inside_(std::move(inside)) {
  if (!object.is_object()) {
    refuse_field(inside_, "{} is {}: an object is wanted", inside_.empty() ? "the body" : inside_,
                 shown_value(object));
  }
}

std::string BodyFields::full_name(std::string_view name) const {
  return inside_.empty() ? std::string(name) : fmt::format("{}.{}", inside_, name);
}

const BodyFields::Json* BodyFields::find(const std::string& name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> BodyFields::whole(const std::string& name, int64_t least, int64_t most) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  // Unsigned ones above 2^63 are none that fits; 16.0 is no whole number either.
  const bool fits = value->is_number_unsigned()
                        ? value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                        : value->is_number_integer();
  const int64_t number = fits ? value->get<int64_t>() : 0;
  if (!fits || number < least || number > most) {
    refuse_field(full_name(name), "{} is {}: a whole number from {} to {} is wanted",
                 full_name(name), shown_value(*value), least, most);
  }
  return number;
}

int64_t BodyFields::whole(const std::string& name, int64_t usual, int64_t least, int64_t most) {
  return whole(name, least, most).value_or(usual);
}

double BodyFields::real(const std::string& name, double usual, double least, double most) {
  const Json* value = find(name);
  if (value == nullptr) return usual;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= least && number <= most)) {  // NaN as well
    refuse_field(full_name(name), "{} is {}: a number from {} to {} is wanted", full_name(name),
                 shown_value(*value), least, most);
  }
  return number;
}

bool BodyFields::flag(const std::string& name, bool usual) {
  const Json* value = find(name);
  if (value == nullptr) return usual;
  if (!value->is_boolean()) {
    refuse_field(full_name(name), "{} is {}: true or false is wanted", full_name(name),
                 shown_value(*value));
  }
  return value->get<bool>();
}

std::optional<std::string> BodyFields::text(const std::string& name, size_t most_bytes) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    refuse_field(full_name(name), "{} is {}: text is wanted", full_name(name), shown_value(*value));
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > most_bytes) {
    refuse_field(full_name(name), "{} has {} bytes: {} are the most", full_name(name), text.size(),
                 most_bytes);
  }
  return text;
}

void BodyFields::ignore(std::initializer_list<const char*> names) {
  known_.insert(names.begin(), names.end());
}

void BodyFields::only(const std::string& name, std::initializer_list<Json> values,
                      std::string_view why) {
  const Json* value = find(name);
  if (value == nullptr || std::find(values.begin(), values.end(), *value) != values.end()) return;
  throw ApiError(400, "unsupported_value", full_name(name),
                 fmt::format("{} is {}: {}", full_name(name), shown_value(*value), why));
}

void BodyFields::finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name)) continue;
    const std::vector<std::string_view> names(known_.begin(), known_.end());
    const std::string near(nearest_name(name, names));
    throw ApiError(400, "unknown_field", full_name(shortened(name, 60)),
                   fmt::format("this server knows no field '{}'{}", full_name(shortened(name, 60)),
                               near.empty() ? "" : fmt::format(": did you mean '{}'?", near)));
  }
}

}  // namespace tessera::serve
