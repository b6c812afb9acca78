// One value somebody wrote: in a run file, a --set, a mesh string or a resolved.json. All of them
// become entries first, so that one place checks names, types and ranges.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "spec/keys.h"

namespace tessera {

struct Entry {
  std::string section;  // "" at the top level
  std::string name;
  std::string key_at;  // "run.toml:5:1" or "--set train.steps=abc": where errors point
  std::string value_at;
  nlohmann::json value;  // of a known section: an empty object, its contents being entries too
};

// Whether numbers must be in the key's range. Resolved runs hold values that only code may set
// (zero = -1 before resolve), so JSON is checked for types alone.
enum class Ranges : uint8_t { kCheck, kIgnore };

// Stores `value` in the field; throws ConfigError "AT: PATH must be ..., got ...".
void assign(const Key& key, Field field, const nlohmann::json& value, const std::string& path,
            const std::string& at, Ranges ranges);

// A whole number that people wrote another way, where the key takes one: "8k" and 1e3 are 8000 and
// 1000 (8192 where the key is a length). Every other value stays as it is.
nlohmann::json as_count(const Key& key, nlohmann::json value);

// The value of a field as JSON; assign() of it gives the same field.
nlohmann::ordered_json value_of(const Field& field);

// Applies entries in order; refuses unknown sections and keys with the nearest known name.
void apply(std::span<const Entry> entries, RunSpec& spec, Ranges ranges);

// ConfigError for the first number in `spec` outside its range.
void check_ranges(RunSpec& spec);

}  // namespace tessera
