// What a calculator says: the numbers put in, each formula with those numbers in it, and the
// result; as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "base/text/quantity.h"

namespace tessera {

struct GivenValue {
  std::string name;    // of the flag
  std::string symbol;  // in formulas; may be empty
  std::string text;    // as shown
  nlohmann::ordered_json value;
};

struct ResultLine {
  std::string key;      // in JSON
  std::string what;     // for people
  std::string formula;  // "2 (N-1)/N X"; empty: nothing to show
  std::string numbers;  // the same with numbers
  Quantity value;
};

using Cell = std::variant<std::string, Quantity>;

struct ResultTable {
  std::string key;
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
};

struct Explanation {
  std::string topic;
  std::string title;
  std::vector<GivenValue> given;
  std::vector<ResultLine> results;
  std::vector<ResultTable> tables;
  std::vector<std::string> notes;

  // Throws ConfigError where the result is not a finite number: what was put in is too large.
  void add(std::string key, std::string what, std::string formula, std::string numbers,
           Quantity value);
  // ConfigError for a key that is not there.
  [[nodiscard]] double value(std::string_view key) const;
};

// "2 (N-1)/N X" with the given values in the place of their symbols: "2 * (32-1)/32 * 140 GB".
// Empty where the formula has a word that is no symbol.
std::string with_numbers(std::string_view formula, const std::vector<GivenValue>& given);

std::string text_of(const Explanation& explanation);
nlohmann::ordered_json json_of(const Explanation& explanation);

}  // namespace tessera
