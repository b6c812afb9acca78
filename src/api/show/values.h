// The values of a topic's fields: what the request says, else the default.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/show/topic.h"

namespace tessera {

class ShowValues {
 public:
  // Throws ConfigError as show_json does.
  ShowValues(const ShowTopic& topic, const nlohmann::json& request);

  // Whether there is a value, given or by default.
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] bool was_given(std::string_view name) const;
  // A field without a value is a mistake of ours, except for truths: those are false.
  [[nodiscard]] int64_t whole(std::string_view name) const;
  [[nodiscard]] int number(std::string_view name) const;  // a whole one that an int holds
  [[nodiscard]] double real(std::string_view name) const;
  [[nodiscard]] std::vector<double> reals(std::string_view name) const;
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] bool truth(std::string_view name) const;
  [[nodiscard]] const nlohmann::json& json(std::string_view name) const;

  // As it was asked, for topics that hand keys on.
  [[nodiscard]] const nlohmann::json& request() const { return request_; }

  // "schedule: ranks is 70: expected …", for what a topic finds by itself.
  [[noreturn]] void refuse(std::string_view name, const std::string& expected) const;

 private:
  nlohmann::json parsed(const ShowField& field, const nlohmann::json& value) const;

  std::string place_;
  nlohmann::json request_;
  nlohmann::json values_ = nlohmann::json::object();
};

}  // namespace tessera
