#include "api/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text/quantity.h"
#include "base/text/text.h"
#include "spec/foreign_names.h"

namespace tessera {
namespace {

// What to write for a key that a request does not have: ours for one of another system's.
std::string meant_key(const std::string& key, const std::vector<std::string_view>& known) {
  if (!nearest_name(key, known).empty()) return suggestion(key, known, "keys");
  const std::string path = key_called(key);
  const std::string name = path.substr(path.rfind('.') + 1);
  const auto has = [&](std::string_view one) {
    return std::find(known.begin(), known.end(), one) != known.end();
  };
  if (!path.empty() && has(name)) return fmt::format("here it is {}", name);
  if (!path.empty() && has("set")) return fmt::format("here it is set = [\"{}=…\"]", path);
  return suggestion(key, known, "keys");
}

constexpr double kMostCount = 9e18;  // an int64_t holds it

std::string shown(const nlohmann::json& value) {
  constexpr size_t kMost = 60;
  if (value.is_string()) return in_quotes(value.get<std::string>(), kMost);
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// Numbers above what an int64_t holds are no whole numbers here.
bool is_whole(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t{INT64_MAX};
  return value.is_number_integer();
}

}  // namespace

Fields::Fields(const nlohmann::json& object, std::string place)
    : object_(object), place_(std::move(place)) {
  require_config(object.is_object(), "{}: the request is {}: expected an object of keys and values",
                 place_, shown(object));
}

const nlohmann::json* Fields::find(std::string_view key) {
  known_.emplace_back(key);
  const auto found = object_.find(known_.back());
  return found == object_.end() ? nullptr : &*found;
}

void Fields::refuse(std::string_view key, const nlohmann::json& value,
                    const std::string& expected) const {
  throw ConfigError(fmt::format("{}: {} is {}: expected {}", place_, key, shown(value), expected));
}

void Fields::text(std::string_view key, std::string& target) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_string()) refuse(key, *value, "a text");
  target = value->get<std::string>();
}

void Fields::texts(std::string_view key, std::vector<std::string>& target) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_text)) {
    refuse(key, *value, "a list of texts");
  }
  target = value->get<std::vector<std::string>>();
}

void Fields::text_or_texts(std::string_view key, std::vector<std::string>& target) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  if (value->is_string()) {
    target = {value->get<std::string>()};
  } else {
    texts(key, target);
  }
}

void Fields::choice(std::string_view key, std::string& target, std::string_view choices) {
  std::string word = target;
  text(key, word);
  const std::vector<std::string_view> words = split(choices, '|');
  const bool is_one = std::find(words.begin(), words.end(), word) != words.end();
  if (word != target && !is_one)
    refuse(key, word, fmt::format("one of {}", fmt::join(words, ", ")));
  target = word;
}

void Fields::whole(std::string_view key, int64_t& target, int64_t least, Thousand k) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  std::optional<int64_t> number;
  if (is_whole(*value)) number = value->get<int64_t>();
  if (value->is_string()) number = parse_count(value->get<std::string>(), k);
  if (number.value_or(least - 1) < least) {
    refuse(key, *value, fmt::format("a whole number of at least {}", least));
  }
  target = *number;
}

void Fields::count_text(std::string_view key, std::string& target) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  const bool is_text = value->is_string() && !value->get_ref<const std::string&>().empty();
  if (!is_whole(*value) && !is_text) refuse(key, *value, "a whole number, such as 8 or \"8k\"");
  target = is_text ? value->get<std::string>() : value->dump();
}

void Fields::duration_text(std::string_view key, std::string& target) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  const bool is_text = value->is_string() && !value->get_ref<const std::string&>().empty();
  if (!value->is_number() && !is_text) refuse(key, *value, "a time, such as 300 or \"5min\"");
  target = is_text ? value->get<std::string>() : value->dump();
}

void Fields::batch(std::string_view key, int64_t& sequences, int64_t& tokens) {
  const auto found = object_.find(std::string(key));
  const bool is_text = found != object_.end() && found->is_string();
  if (const auto said = is_text ? parse_tokens(found->get<std::string>()) : std::nullopt) {
    known_.emplace_back(key);
    tokens = *said;
    return;
  }
  whole(key, sequences, 1);
}

void Fields::count(std::string_view key, int64_t& target) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  const std::string expected = "a whole number from 1 to 9e18, such as 15000000000000 or \"15T\"";
  if (is_whole(*value) && value->get<int64_t>() >= 1) {
    target = value->get<int64_t>();
    return;
  }
  if (!value->is_string()) refuse(key, *value, expected);
  const double number =
      parse_quantity(Unit::kCount, value->get<std::string>(), fmt::format("{}: {}", place_, key));
  if (number < 1 || number > kMostCount || number != std::floor(number)) {
    refuse(key, *value, expected);
  }
  target = static_cast<int64_t>(number);
}

void Fields::real(std::string_view key, double& target, double least) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  const bool fits =
      value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() >= least;
  if (!fits) refuse(key, *value, fmt::format("a number of at least {}", least));
  target = value->get<double>();
}

void Fields::truth(std::string_view key, bool& target) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) refuse(key, *value, "true or false");
  target = value->get<bool>();
}

const nlohmann::json* Fields::object(std::string_view key) {
  const nlohmann::json* value = find(key);
  if (value != nullptr && !value->is_object()) refuse(key, *value, "an object");
  return value;
}

void Fields::finish() const {
  const std::vector<std::string_view> known(known_.begin(), known_.end());
  for (const auto& [key, value] : object_.items()) {
    const bool is_known = std::find(known.begin(), known.end(), key) != known.end();
    if (is_known) continue;
    throw ConfigError(
        fmt::format("{}: unknown key {}; {}", place_, in_quotes(key), meant_key(key, known)));
  }
}

}  // namespace tessera
