// The fields of a JSON object that a client sent, one by one, each with its type and range. A field
// that is null counts as not given, as clients send it. Every refusal is an ApiError that names the
// field and its value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::serve {

class BodyFields {
 public:
  using Json = nlohmann::ordered_json;

  // The object must outlive this. `inside`: the name of the field that it is, for messages.
  explicit BodyFields(const Json& object, std::string inside = "");

  [[nodiscard]] bool has(const std::string& name) { return find(name) != nullptr; }
  // Null: not given.
  const Json* find(const std::string& name);
  std::optional<int64_t> whole(const std::string& name, int64_t least, int64_t most);
  int64_t whole(const std::string& name, int64_t usual, int64_t least, int64_t most);
  double real(const std::string& name, double usual, double least, double most);
  bool flag(const std::string& name, bool usual);
  std::optional<std::string> text(const std::string& name, size_t most_bytes);

  // Fields that clients send and that mean nothing here, whatever stands in them.
  void ignore(std::initializer_list<const char*> names);
  // Refuses the field, unless it is not given or has one of these values (null is always fine).
  void only(const std::string& name, std::initializer_list<Json> values, std::string_view why);
  // Refuses what nobody asked for, with the name that may have been meant.
  void finish() const;

  [[nodiscard]] std::string full_name(std::string_view name) const;

 private:
  const Json& object_;
  std::string inside_;
  std::set<std::string, std::less<>> known_;
};

// A value for messages: short, and printable.
std::string shown_value(const nlohmann::ordered_json& value);

}  // namespace tessera::serve
