#include "data/template/functions/filters.h"

#include <array>

#include "base/text/text.h"

namespace tessera::jinja {
namespace {

std::array<std::span<const FilterRow>, 4> families() {
  return {text_filters(), list_filters(), pick_filters(), number_filters()};
}

const FilterRow* row_of(std::string_view name) {
  for (const std::span<const FilterRow> family : families()) {
    for (const FilterRow& row : family) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

}  // namespace

bool is_filter(std::string_view name) { return row_of(name) != nullptr; }

std::string filter_suggestion(std::string_view name) {
  std::vector<std::string_view> known;
  for (const std::span<const FilterRow> family : families()) {
    for (const FilterRow& row : family) known.push_back(row.name);
  }
  return suggestion(name, known, "filters");
}

Value apply_filter(Budget& budget, std::string_view name, const Value& value,
                   const Arguments& arguments) {
  budget.step();
  const FilterRow* row = row_of(name);
  if (row == nullptr) fault("there is no filter '{}'; {}", name, filter_suggestion(name));
  return row->function(budget, std::string(name), value, arguments);
}

}  // namespace tessera::jinja
