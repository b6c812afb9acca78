#include "api/show/values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text/parse_real.h"
#include "base/text/quantity.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using Kind = ShowField::Kind;

std::string value_shown(const nlohmann::json& value) {
  constexpr size_t kMost = 60;
  if (value.is_string()) return in_quotes(value.get<std::string>(), kMost);
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

std::string range_text(const ShowField& field) {
  constexpr double kBoundless = 1e15;
  return field.most >= kBoundless ? fmt::format("of at least {:g}", field.least)
                                  : fmt::format("from {:.12g} to {:.12g}", field.least, field.most);
}

std::string expected_of(const ShowField& field) {
  switch (field.kind) {
    case Kind::kWhole:
      return "a whole number " + range_text(field);
    case Kind::kReal:
      return "a number " + range_text(field);
    case Kind::kReals:
      return fmt::format("a list of numbers, each {}", range_text(field));
    case Kind::kText:
      return "a text";
    case Kind::kChoice:
      return fmt::format("one of {}", fmt::join(split(field.choices, '|'), ", "));
    case Kind::kTruth:
      return "true or false";
    case Kind::kJson:
      return "JSON";
    case Kind::kSize:
      return "a whole number, such as 8 or \"8k\"";
    case Kind::kTexts:
      return "a list of texts";
  }
  return "";
}

std::optional<double> in_range(const ShowField& field, std::optional<double> value) {
  const bool fits =
      value.has_value() && std::isfinite(*value) && *value >= field.least && *value <= field.most;
  return fits ? value : std::nullopt;
}

std::optional<double> real_of(const ShowField& field, const nlohmann::json& value) {
  if (value.is_number()) return in_range(field, value.get<double>());
  return in_range(field, value.is_string() ? whole_real(trim(value.get<std::string>()))
                                           : std::optional<double>());
}

nlohmann::json whole_of(const ShowField& field, const nlohmann::json& value) {
  std::optional<int64_t> number;
  if (value.is_string()) number = parse_count(value.get<std::string>());
  if (value.is_number()) number = whole_number(value.get<double>());
  if (!number || !in_range(field, static_cast<double>(*number))) return nullptr;
  return *number;
}

nlohmann::json reals_of(const ShowField& field, const nlohmann::json& value) {
  nlohmann::json items = value;
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    items = nlohmann::json::array();
    for (const std::string_view item : split(text, ',')) items.push_back(item);
  }
  if (!items.is_array()) return nullptr;
  nlohmann::json numbers = nlohmann::json::array();
  for (const nlohmann::json& item : items) {
    const std::optional<double> number = real_of(field, item);
    if (!number) return nullptr;
    numbers.push_back(*number);
  }
  return numbers;
}

nlohmann::json choice_of(const ShowField& field, const nlohmann::json& value) {
  if (!value.is_string()) return nullptr;
  const std::vector<std::string_view> words = split(field.choices, '|');
  const bool is_one =
      std::find(words.begin(), words.end(), value.get<std::string>()) != words.end();
  return is_one ? value : nlohmann::json();
}

nlohmann::json truth_of(const nlohmann::json& value) {
  if (value.is_boolean()) return value;
  if (value == "true" || value == "false") return value == "true";
  return nullptr;
}

nlohmann::json any_of(const nlohmann::json& value) {
  if (!value.is_string()) return value;
  return nlohmann::json::parse(value.get<std::string>(), nullptr, /*allow_exceptions=*/false);
}

nlohmann::json texts_of(const nlohmann::json& value) {
  const bool fits =
      value.is_array() && std::all_of(value.begin(), value.end(),
                                      [](const nlohmann::json& item) { return item.is_string(); });
  return fits ? value : nlohmann::json();
}

// Null for what the field does not take.
nlohmann::json read_value(const ShowField& field, const nlohmann::json& value) {
  switch (field.kind) {
    case Kind::kWhole:
      return whole_of(field, value);
    case Kind::kReal: {
      const std::optional<double> number = real_of(field, value);
      return number ? nlohmann::json(*number) : nlohmann::json();
    }
    case Kind::kReals:
      return reals_of(field, value);
    case Kind::kText:
      return value.is_string() ? value : nlohmann::json();
    case Kind::kChoice:
      return choice_of(field, value);
    case Kind::kTruth:
      return truth_of(value);
    case Kind::kJson: {
      nlohmann::json any = any_of(value);
      return any.is_discarded() ? nlohmann::json() : any;
    }
    case Kind::kSize:
      return value.is_number_integer() || value.is_string() ? value : nlohmann::json();
    case Kind::kTexts:
      return texts_of(value);
  }
  return nullptr;
}

void refuse_unknown_keys(const ShowTopic& topic, const nlohmann::json& request) {
  std::vector<std::string_view> known;
  for (const ShowField& field : topic.fields) known.push_back(field.name);
  for (const auto& [key, value] : request.items()) {
    const bool is_known = std::find(known.begin(), known.end(), key) != known.end();
    require_config(is_known, "{}: unknown key {}; {}", topic.name, in_quotes(key),
                   known.empty() ? "it takes none" : suggestion(key, known, "keys"));
  }
}

}  // namespace

ShowValues::ShowValues(const ShowTopic& topic, const nlohmann::json& request)
    : place_(topic.name), request_(request) {
  require_config(request.is_object(),
                 "{}: the request is {}: expected an object of keys and values", place_,
                 value_shown(request));
  refuse_unknown_keys(topic, request);
  for (const ShowField& field : topic.fields) {
    const std::string name(field.name);
    const auto found = request.find(name);
    if (found != request.end()) {
      values_[name] = parsed(field, *found);
    } else if (!field.fallback.empty()) {
      values_[name] = parsed(field, std::string(field.fallback));
    }
  }
}

nlohmann::json ShowValues::parsed(const ShowField& field, const nlohmann::json& value) const {
  nlohmann::json result = read_value(field, value);
  require_config(!result.is_null(), "{}: {} is {}: expected {}", place_, field.name,
                 value_shown(value), expected_of(field));
  return result;
}

bool ShowValues::has(std::string_view name) const { return values_.contains(std::string(name)); }
bool ShowValues::was_given(std::string_view name) const {
  return request_.contains(std::string(name));
}

const nlohmann::json& ShowValues::json(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  TESSERA_CHECK(found != values_.end(), "{} has no value for {}", place_, name);
  return *found;
}

int64_t ShowValues::whole(std::string_view name) const { return json(name).get<int64_t>(); }
int ShowValues::number(std::string_view name) const { return json(name).get<int>(); }
double ShowValues::real(std::string_view name) const { return json(name).get<double>(); }
std::string ShowValues::text(std::string_view name) const { return json(name).get<std::string>(); }
bool ShowValues::truth(std::string_view name) const { return has(name) && json(name).get<bool>(); }

std::vector<double> ShowValues::reals(std::string_view name) const {
  return has(name) ? json(name).get<std::vector<double>>() : std::vector<double>();
}

void ShowValues::refuse(std::string_view name, const std::string& expected) const {
  throw ConfigError(fmt::format("{}: {} is {}: expected {}", place_, name,
                                has(name) ? value_shown(json(name)) : "not given", expected));
}

}  // namespace tessera
