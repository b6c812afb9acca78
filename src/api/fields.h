// Reading a JSON object into the fields of a request. Keys that are not there leave a field as it
// is. A value of another type, and a key that no field has, are refused with place, value and what
// is expected.
//
//   Fields fields(json, "search");
//   fields.text("model", query.model);
//   fields.whole("tp", query.tp, 1);
//   fields.finish();
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/quantity.h"

namespace tessera {

class Fields {
 public:
  // `place` is what messages begin with. Throws ConfigError unless `object` is one, which must
  // outlive this.
  Fields(const nlohmann::json& object, std::string place);

  void text(std::string_view key, std::string& target);
  void texts(std::string_view key, std::vector<std::string>& target);
  // A list of texts, or one text alone.
  void text_or_texts(std::string_view key, std::vector<std::string>& target);
  // One of the words in `choices`, "a|b|c".
  void choice(std::string_view key, std::string& target, std::string_view choices);
  // A whole number, or a text that says one: "8k", of which `k` says what it stands for.
  void whole(std::string_view key, int64_t& target, int64_t least, Thousand k = Thousand::kDecimal);
  // A whole number, or a text that says a large one as people write it: "15T".
  void count(std::string_view key, int64_t& target);
  // The same as text, for who knows better what may be written there: 8 is "8", "4Mtok" stays.
  void count_text(std::string_view key, std::string& target);
  // A time as text, "5min", or a number of seconds: kept as text, for who knows its bounds.
  void duration_text(std::string_view key, std::string& target);
  // Sequences of a step, or in `tokens` how many they are together: "4Mtok".
  void batch(std::string_view key, int64_t& sequences, int64_t& tokens);
  void real(std::string_view key, double& target, double least);
  void truth(std::string_view key, bool& target);
  // The object at `key`, whose keys are anybody's; nullptr where it is not there.
  const nlohmann::json* object(std::string_view key);

  // Refuses what nobody has asked for, with the nearest key that there is.
  void finish() const;

 private:
  const nlohmann::json* find(std::string_view key);
  [[noreturn]] void refuse(std::string_view key, const nlohmann::json& value,
                           const std::string& expected) const;

  const nlohmann::json& object_;
  std::string place_;
  std::vector<std::string> known_;
};

}  // namespace tessera
