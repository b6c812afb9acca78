// The fields of tokenizer.json, with a message that names the place for what is missing or of
// another kind.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// A value of the file and where it stands: "tokenizer.json: pre_tokenizer.pretokenizers[1]". Lives
// no longer than the document.
class JsonPlace {
 public:
  JsonPlace(const nlohmann::json& value, std::string place)
      : value_(&value), place_(std::move(place)) {}

  [[nodiscard]] const nlohmann::json& value() const { return *value_; }
  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] bool has(std::string_view key) const;  // and it is not null

  [[nodiscard]] JsonPlace at(std::string_view key) const;  // throws if it is missing
  [[nodiscard]] std::vector<JsonPlace> items() const;      // of an array
  [[nodiscard]] std::string text() const;
  [[nodiscard]] uint32_t character() const;  // a text of one character
  [[nodiscard]] bool truth() const;
  [[nodiscard]] int64_t whole() const;  // from 0 on
  [[nodiscard]] bool truth(std::string_view key, bool otherwise) const;
  [[nodiscard]] std::string type() const { return at("type").text(); }

  // Throws ConfigError: "PLACE: MESSAGE".
  [[noreturn]] void fail(const std::string& message) const;

 private:
  const nlohmann::json* value_;
  std::string place_;
};

}  // namespace tessera
