#include "data/tokenizer/common/json_reader.h"

#include "base/error.h"
#include "base/text/printable.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {

void JsonPlace::fail(const std::string& message) const {
  throw ConfigError(fmt::format("{}: {}", place_, message));
}

bool JsonPlace::has(std::string_view key) const {
  if (!value_->is_object()) return false;
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

JsonPlace JsonPlace::at(std::string_view key) const {
  if (!value_->is_object()) fail("expected an object");
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("'{}' is missing", key));
  return {*found, fmt::format("{}{}{}", place_, place_.ends_with(':') ? " " : ".", key)};
}

std::vector<JsonPlace> JsonPlace::items() const {
  if (!value_->is_array()) fail("expected a list");
  std::vector<JsonPlace> items;
  items.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    items.emplace_back((*value_)[i], fmt::format("{}[{}]", place_, i));
  }
  return items;
}

std::string JsonPlace::text() const {
  if (!value_->is_string()) fail("expected a text");
  return value_->get<std::string>();
}

uint32_t JsonPlace::character() const {
  const std::string one = text();
  if (one.empty() || code_point_at(one, 0).bytes != one.size()) {
    fail(fmt::format("expected one character, got '{}'", shortened(one)));
  }
  return code_point_at(one, 0).code;
}

bool JsonPlace::truth() const {
  if (!value_->is_boolean()) fail("expected true or false");
  return value_->get<bool>();
}

int64_t JsonPlace::whole() const {
  if (!value_->is_number_integer() ||
      (value_->is_number_unsigned() && value_->get<uint64_t>() > INT32_MAX) ||
      value_->get<int64_t>() < 0 || value_->get<int64_t>() > INT32_MAX) {
    fail(fmt::format("expected a whole number from 0 to {}", INT32_MAX));
  }
  return value_->get<int64_t>();
}

bool JsonPlace::truth(std::string_view key, bool otherwise) const {
  return has(key) ? at(key).truth() : otherwise;
}

}  // namespace tessera
