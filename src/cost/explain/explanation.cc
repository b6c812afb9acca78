#include "cost/explain/explanation.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

void require_finite(double value, std::string_view what) {
  require_config(std::isfinite(value), "{} is too large to count; use smaller numbers", what);
}

std::string given_text(const Explanation& e) {
  size_t names = 0, symbols = 0;
  for (const GivenValue& g : e.given) {
    names = std::max(names, g.name.size());
    symbols = std::max(symbols, g.symbol.size());
  }
  std::string text;
  for (const GivenValue& g : e.given) {
    text += fmt::format("  {:<{}}  {:<{}}  {}\n", g.name, names, g.symbol, symbols, g.text);
  }
  return text;
}

std::string results_text(const Explanation& e) {
  size_t width = 0;
  for (const ResultLine& r : e.results) width = std::max(width, r.what.size());
  std::string text;
  for (const ResultLine& r : e.results) {
    text += fmt::format("{:<{}}  ", r.what, width);
    if (!r.formula.empty()) text += r.formula + " = ";
    const std::string value = text_of(r.value);
    if (!r.numbers.empty() && r.numbers != value) text += r.numbers + " = ";
    text += value + "\n";
  }
  return text;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

const GivenValue* find_symbol(std::string_view word, const std::vector<GivenValue>& given) {
  const auto found = std::find_if(given.begin(), given.end(),
                                  [&](const GivenValue& g) { return g.symbol == word; });
  return found == given.end() ? nullptr : &*found;
}

// Names of functions that may stand in a formula.
bool is_function(std::string_view word) { return word == "log2" || word == "mod"; }

std::string cell_text(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  return text_of(std::get<Quantity>(cell));
}

std::string table_text(const ResultTable& table) {
  std::vector<TextTable::Column> columns;
  for (const std::string& header : table.columns) {
    columns.push_back({header, columns.empty() ? Align::kLeft : Align::kRight});
  }
  TextTable text(std::move(columns));
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) cells.push_back(cell_text(cell));
    text.add_row(std::move(cells));
  }
  return (table.title.empty() ? "" : table.title + "\n") + text.str();
}

nlohmann::ordered_json quantity_json(const Quantity& quantity) {
  return {{"value", quantity.value}, {"unit", name_of(quantity.unit)}, {"text", text_of(quantity)}};
}

nlohmann::ordered_json table_json(const ResultTable& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::vector<Cell>& cells : table.rows) {
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    for (const Cell& cell : cells) {
      const auto* text = std::get_if<std::string>(&cell);
      row.push_back(text != nullptr ? nlohmann::ordered_json(*text)
                                    : nlohmann::ordered_json(std::get<Quantity>(cell).value));
    }
    rows.push_back(std::move(row));
  }
  return {{"title", table.title}, {"columns", table.columns}, {"rows", std::move(rows)}};
}

}  // namespace

void Explanation::add(std::string key, std::string what, std::string formula, std::string numbers,
                      Quantity quantity) {
  require_finite(quantity.value, what);
  results.push_back(
      {std::move(key), std::move(what), std::move(formula), std::move(numbers), quantity});
}

double Explanation::value(std::string_view key) const {
  for (const ResultLine& result : results) {
    if (result.key == key) return result.value.value;
  }
  throw ConfigError(fmt::format("explain {} has no result '{}'", topic, key));
}

std::string with_numbers(std::string_view formula, const std::vector<GivenValue>& given) {
  std::string text;
  bool replaced = false;
  for (size_t i = 0; i < formula.size();) {
    size_t end = i + 1;
    if (!is_letter(formula[i])) {
      // A space between two factors means a product.
      const bool before =
          i > 0 && (is_letter(formula[i - 1]) || is_digit(formula[i - 1]) || formula[i - 1] == ')');
      const bool after = end < formula.size() &&
                         (is_letter(formula[end]) || is_digit(formula[end]) || formula[end] == '(');
      const bool word_next = formula.substr(end).starts_with("mod ");
      const bool word_before = formula.substr(0, i).ends_with(" mod");
      const bool product = formula[i] == ' ' && before && after && !word_next && !word_before;
      text += product ? " * " : std::string(1, formula[i]);
      if (formula[i] == ',') return "";  // a remark follows
      i = end;
      continue;
    }
    while (end < formula.size() && (is_letter(formula[end]) || is_digit(formula[end]))) ++end;
    const std::string_view word = formula.substr(i, end - i);
    const GivenValue* value = find_symbol(word, given);
    if (value == nullptr && !is_function(word)) return "";
    text += value != nullptr ? value->text : std::string(word);
    replaced = replaced || value != nullptr;
    i = end;
  }
  return replaced ? text : "";
}

std::string text_of(const Explanation& e) {
  std::string text = e.title + "\n\n" + given_text(e) + "\n" + results_text(e);
  for (const ResultTable& table : e.tables) text += "\n" + table_text(table);
  for (const std::string& note : e.notes) text += "\n" + note + "\n";
  return text;
}

nlohmann::ordered_json json_of(const Explanation& e) {
  nlohmann::ordered_json json;
  json["topic"] = e.topic;
  json["title"] = e.title;
  json["given"] = nlohmann::ordered_json::object();
  for (const GivenValue& g : e.given) json["given"][g.name] = g.value;
  json["results"] = nlohmann::ordered_json::object();
  for (const ResultLine& r : e.results) {
    nlohmann::ordered_json line = quantity_json(r.value);
    line["what"] = r.what;
    line["formula"] = r.formula;
    line["numbers"] = r.numbers;
    json["results"][r.key] = std::move(line);
  }
  json["tables"] = nlohmann::ordered_json::object();
  for (const ResultTable& table : e.tables) {
    for (const auto& row : table.rows) {
      for (const Cell& cell : row) {
        const auto* quantity = std::get_if<Quantity>(&cell);
        if (quantity != nullptr) require_finite(quantity->value, table.title);
      }
    }
    json["tables"][table.key] = table_json(table);
  }
  json["notes"] = e.notes;
  return json;
}

}  // namespace tessera
