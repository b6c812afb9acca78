// One object of an entry of published results; null and absent are the same.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace tessera {

// All numbers are checked: what cannot be one of a run throws ConfigError that names the field.
class EntryFields {
 public:
  // The object `name` of the entry, which must outlive this; an empty one where there is none.
  EntryFields(const nlohmann::json& entry, const char* name);

  [[nodiscard]] const nlohmann::json* find(const char* key) const;
  // A number, or a text that is one.
  [[nodiscard]] std::optional<int64_t> whole(const char* key) const;
  // The same of what there is at least one of.
  [[nodiscard]] std::optional<int64_t> count(const char* key) const;
  [[nodiscard]] std::optional<double> real(const char* key) const;
  // In small letters; "true" or "false" for those.
  [[nodiscard]] std::string text(const char* key) const;
  [[nodiscard]] bool yes(const char* key) const;
  [[nodiscard]] int64_t need(const char* key) const;  // more than 0

 private:
  [[nodiscard]] std::optional<double> number(const char* key) const;

  std::string name_;
  const nlohmann::json* object_;
};

}  // namespace tessera
