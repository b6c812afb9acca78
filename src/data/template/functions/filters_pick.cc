#include <algorithm>

#include "data/template/functions/access.h"
#include "data/template/functions/checks.h"
#include "data/template/functions/filters.h"
#include "data/template/values/text_ops.h"

namespace tessera::jinja {
namespace {

// The name of a filter or a test among the arguments, and what follows it.
std::string take_name(Arguments& arguments, std::string_view what) {
  const std::string* name = arguments.values.front().text();
  if (name == nullptr)
    fault("{} wants a name in quotes, not {}", what, kind_words(arguments.values.front()));
  std::string taken = *name;
  arguments.values.erase(arguments.values.begin());
  return taken;
}

// Keeps the items whose value passes the test that is named, or counts as true.
void pick(Budget& budget, const std::string& name, const Value& value, Arguments arguments,
          std::vector<Value>& kept) {
  const bool by_attribute = name.ends_with("attr");
  const bool wanted = name.starts_with("select");
  if (!truth(value)) return;
  Value path = Value::none();
  if (by_attribute) {
    if (arguments.values.empty()) fault("the filter '{}' needs the name of an attribute", name);
    path = arguments.values.front();
    arguments.values.erase(arguments.values.begin());
  }
  const bool by_test = !arguments.values.empty();
  const std::string test = by_test ? take_name(arguments, "the filter '" + name + "'") : "";
  for (const Value& item : iterate(budget, value)) {
    const Value looked_at = by_attribute ? get_path(budget, item, path) : item;
    const bool passes =
        by_test ? apply_check(budget, test, looked_at, arguments) : truth(looked_at);
    if (passes == wanted) kept.push_back(item);
  }
}

Value picked(Budget& budget, const std::string& name, const Value& value,
             const Arguments& arguments) {
  return make_generator(
      budget, [&](std::vector<Value>& kept) { pick(budget, name, value, arguments, kept); });
}

// The attribute of each item; `otherwise` wherever a part of its path is undefined.
Value attribute_or(Budget& budget, Value item, const Value& path, const Value& otherwise) {
  const std::string* text = path.text();
  if (text == nullptr || otherwise.is<None>()) {
    Value found = get_path(budget, item, path);
    return found.is<Undefined>() && !otherwise.is<None>() ? otherwise : found;
  }
  for (const std::string_view part : split_text(*text, ".", -1)) {
    item = get_path(budget, item, make_text(budget, std::string(part)));
    if (item.is<Undefined>()) item = otherwise;
  }
  return item;
}

void map_items(Budget& budget, const Value& value, Arguments arguments,
               std::vector<Value>& results) {
  if (!truth(value)) return;
  if (arguments.values.empty()) {
    const Bound bound("the filter 'map'", arguments, {"attribute", "default"}, 1);
    const Value otherwise = bound.find(1) == nullptr ? Value::none() : bound.at(1);
    for (const Value& item : iterate(budget, value)) {
      results.push_back(attribute_or(budget, item, bound.at(0), otherwise));
    }
    return;
  }
  const std::string filter = take_name(arguments, "the filter 'map'");
  if (filter == "map") fault("the filter 'map' cannot be mapped: use it once");
  for (const Value& item : iterate(budget, value)) {
    results.push_back(apply_filter(budget, filter, item, arguments));
  }
}

Value mapped(Budget& budget, const std::string& /*name*/, const Value& value,
             const Arguments& arguments) {
  return make_generator(
      budget, [&](std::vector<Value>& results) { map_items(budget, value, arguments, results); });
}

constexpr FilterRow kFilters[] = {{"map", mapped},
                                  {"reject", picked},
                                  {"rejectattr", picked},
                                  {"select", picked},
                                  {"selectattr", picked}};

}  // namespace

std::span<const FilterRow> pick_filters() { return kFilters; }

}  // namespace tessera::jinja
