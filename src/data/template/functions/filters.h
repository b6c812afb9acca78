// Jinja's filters: what stands behind `|`. Those of transformers differ in one: `tojson` writes
// what Python's json.dumps writes, with letters of all scripts as they are.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "data/template/values/arguments.h"
#include "data/template/values/value.h"

namespace tessera::jinja {

bool is_filter(std::string_view name);
// "did you mean ...?" for a name that is none.
std::string filter_suggestion(std::string_view name);
Value apply_filter(Budget& budget, std::string_view name, const Value& value,
                   const Arguments& arguments);

// The families. `name` is that of the filter: some differ in little.
using FilterFunction = Value (*)(Budget& budget, const std::string& name, const Value& value,
                                 const Arguments& arguments);
struct FilterRow {
  std::string_view name;
  FilterFunction function;
};
std::span<const FilterRow> text_filters();    // of strings
std::span<const FilterRow> list_filters();    // of lists and mappings
std::span<const FilterRow> pick_filters();    // map, select and their like
std::span<const FilterRow> number_filters();  // of numbers

}  // namespace tessera::jinja
