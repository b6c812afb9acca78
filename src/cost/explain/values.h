// The numbers that a calculator is given: what the user wrote, else what the named model or device
// has, else the default.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/explain/explanation.h"
#include "cost/hardware/device.h"
#include "spec/file_reader.h"
#include "spec/run_spec.h"

namespace tessera {

struct Parameter {
  std::string_view name;    // of the flag, without dashes
  std::string_view symbol;  // in formulas; empty: none
  Unit unit = Unit::kNumber;
  std::string_view fallback;  // as a user would write it; empty: left out unless given
  std::string_view help;
  enum class Kind : uint8_t { kReal, kWhole, kReals, kText } kind = Kind::kReal;
  bool may_be_zero = false;
};

using GivenTexts = std::map<std::string, std::string>;  // by name of the flag

// Throws ConfigError for names that no parameter has and values out of range.
class Values {
 public:
  Values(std::span<const Parameter> parameters, const GivenTexts& given, const FileReader& read);

  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] double operator[](std::string_view name) const;
  [[nodiscard]] int64_t whole(std::string_view name) const;
  [[nodiscard]] const std::vector<double>& list(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;
  // As it stands in a formula: "140 GB".
  [[nodiscard]] std::string shown(std::string_view name) const;
  // All that have a value, for Explanation::given.
  [[nodiscard]] std::vector<GivenValue> given() const;

 private:
  struct Value {
    const Parameter* parameter = nullptr;
    std::vector<double> numbers;
    std::string text;
  };
  [[nodiscard]] const Value& find(std::string_view name) const;
  void read(const Parameter& parameter, std::string_view text);
  void take_from_model(const ModelSpec& model, const GivenTexts& given);
  void take_from_device(const DeviceSpec& device, const GivenTexts& given);
  // Unless the user said otherwise; nothing where `fact` is 0.
  void take(std::string_view name, double fact, const GivenTexts& given);

  std::vector<Value> values_;  // in the order of the parameters
};

}  // namespace tessera
