#include <algorithm>

#include "data/template/functions/access.h"
#include "data/template/functions/filters.h"
#include "data/template/functions/methods.h"
#include "data/template/values/arithmetic.h"
#include "data/template/values/compare.h"
#include "data/template/values/text_ops.h"
#include "data/template/values/write.h"

namespace tessera::jinja {
namespace {

std::string filter_called(const std::string& name) { return "the filter '" + name + "'"; }

Value without_case(Budget& budget, const Value& value, bool case_sensitive) {
  const std::string* text = value.text();
  return text == nullptr || case_sensitive ? value : make_text(budget, lower(*text));
}

Value length(Budget& budget, const std::string& name, const Value& value,
             const Arguments& arguments) {
  const Bound none(filter_called(name), arguments, {});
  return Value::integer(length_of(budget, value));
}

Value as_list(Budget& budget, const std::string& name, const Value& value,
              const Arguments& arguments) {
  const Bound none(filter_called(name), arguments, {});
  return make_list(budget, iterate(budget, value));
}

Value first(Budget& budget, const std::string& name, const Value& value,
            const Arguments& arguments) {
  const Bound none(filter_called(name), arguments, {});
  if (const GeneratorPtr* held = value.as<GeneratorPtr>()) {
    if (const Value* item = (*held)->take()) return *item;
  } else if (const std::vector<Value> values = iterate(budget, value); !values.empty()) {
    return values.front();
  }
  return Value::undefined("there is no first item: the list is empty");
}

Value last(Budget& budget, const std::string& name, const Value& value,
           const Arguments& arguments) {
  const Bound none(filter_called(name), arguments, {});
  if (value.is<GeneratorPtr>()) fault("a generator has no last item: write '| list | last'");
  const std::vector<Value> values = iterate(budget, value);
  return values.empty() ? Value::undefined("there is no last item: the list is empty")
                        : values.back();
}

Value joined(Budget& budget, const std::string& name, const Value& value,
             const Arguments& arguments) {
  const Bound bound(filter_called(name), arguments, {"d", "attribute"});
  const std::string separator = bound.find(0) == nullptr ? "" : text_of(budget, bound.at(0));
  std::string text;
  bool is_first = true;
  for (const Value& item : iterate(budget, value)) {
    const std::string part =
        text_of(budget, bound.find(1) == nullptr ? item : get_path(budget, item, bound.at(1)));
    budget.make(part.size() + separator.size());
    if (!is_first) text += separator;
    is_first = false;
    text += part;
  }
  return make_text(budget, std::move(text));
}

Value with_default(Budget& /*budget*/, const std::string& name, const Value& value,
                   const Arguments& arguments) {
  const Bound bound(filter_called(name), arguments, {"default_value", "boolean"});
  const bool taken = value.is<Undefined>() || (bound.truth_or(1, false) && !truth(value));
  if (!taken) return value;
  return bound.find(0) == nullptr ? Value(std::make_shared<const std::string>()) : bound.at(0);
}

Value pairs(Budget& budget, const std::string& name, const Value& value,
            const Arguments& arguments) {
  const Bound none(filter_called(name), arguments, {});
  return make_generator(budget, [&](std::vector<Value>& entries) {
    if (value.is<Undefined>()) return;
    if (!value.is<DictPtr>())
      fault("the filter 'items' wants a mapping, not {}", kind_words(value));
    entries = iterate(budget, call_method(budget, value, "items", {}));
  });
}

Value reversed(Budget& budget, const std::string& name, const Value& value,
               const Arguments& arguments) {
  const Bound none(filter_called(name), arguments, {});
  std::vector<Value> values = iterate(budget, value);
  std::reverse(values.begin(), values.end());
  if (value.is<GeneratorPtr>()) return make_list(budget, std::move(values));
  if (!value.is<TextPtr>()) {
    return make_generator(budget, [&](std::vector<Value>& items) { items = std::move(values); });
  }
  std::string text;
  for (const Value& character : values) text += *character.text();
  return make_text(budget, std::move(text));
}

// Sorted by keys that were worked out once.
std::vector<Value> sorted(Budget& budget, std::vector<std::pair<Value, Value>> keyed,
                          bool descending) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return descending ? less(budget, b.first, a.first) : less(budget, a.first, b.first);
  });
  std::vector<Value> values;
  for (auto& [key, value] : keyed) values.push_back(std::move(value));
  return values;
}

Value dict_sorted(Budget& budget, const std::string& name, const Value& value,
                  const Arguments& arguments) {
  const Bound bound(filter_called(name), arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.find(1) == nullptr ? "key" : bound.text(1);
  if (by != "key" && by != "value") fault("the filter 'dictsort' sorts by 'key' or 'value'");
  if (value.is<Undefined>()) fail_undefined(value);
  if (!value.is<DictPtr>())
    fault("the filter 'dictsort' wants a mapping, not {}", kind_words(value));
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, held] : value.dict()->entries) {
    keyed.emplace_back(without_case(budget, by == "key" ? key : held, bound.truth_or(0, false)),
                       make_items(budget, ItemsKind::kTuple, {key, held}));
  }
  return make_list(budget, sorted(budget, std::move(keyed), bound.truth_or(2, false)));
}

// The values of "a,b" of an item, in a list: compared one after the other.
Value sort_key(Budget& budget, const Value& item, const Value* attribute, bool case_sensitive) {
  std::vector<Value> keys;
  const std::string* paths = attribute == nullptr ? nullptr : attribute->text();
  if (paths == nullptr) {
    const Value key = attribute == nullptr ? item : get_path(budget, item, *attribute);
    keys.push_back(without_case(budget, key, case_sensitive));
  } else {
    for (const std::string_view path : split_text(*paths, ",", -1)) {
      const Value key = get_path(budget, item, make_text(budget, std::string(path)));
      keys.push_back(without_case(budget, key, case_sensitive));
    }
  }
  return make_list(budget, std::move(keys));
}

Value list_sorted(Budget& budget, const std::string& name, const Value& value,
                  const Arguments& arguments) {
  const Bound bound(filter_called(name), arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : iterate(budget, value)) {
    keyed.emplace_back(sort_key(budget, item, bound.find(2), bound.truth_or(1, false)), item);
  }
  return make_list(budget, sorted(budget, std::move(keyed), bound.truth_or(0, false)));
}

Value unique(Budget& budget, const std::string& name, const Value& value,
             const Arguments& arguments) {
  const Bound bound(filter_called(name), arguments, {"case_sensitive", "attribute"});
  return make_generator(budget, [&](std::vector<Value>& kept) {
    std::vector<Value> seen;
    for (const Value& item : iterate(budget, value)) {
      const Value found = bound.find(1) == nullptr ? item : get_path(budget, item, bound.at(1));
      const Value key = without_case(budget, found, bound.truth_or(0, false));
      const Items* items = key.items();
      if (key.is<DictPtr>() || (items != nullptr && items->kind != ItemsKind::kTuple)) {
        fault("the filter 'unique' cannot tell {} apart: name an attribute", kind_words(key));
      }
      const auto equals = [&](const Value& other) { return equal(budget, other, key); };
      if (std::any_of(seen.begin(), seen.end(), equals)) continue;
      seen.push_back(key);
      kept.push_back(item);
    }
  });
}

Value extreme(Budget& budget, const std::string& name, const Value& value,
              const Arguments& arguments) {
  const Bound bound(filter_called(name), arguments, {"case_sensitive", "attribute"});
  std::optional<std::pair<Value, Value>> best;
  for (const Value& item : iterate(budget, value)) {
    const Value key =
        without_case(budget, bound.find(1) == nullptr ? item : get_path(budget, item, bound.at(1)),
                     bound.truth_or(0, false));
    const bool better =
        !best || (name == "min" ? less(budget, key, best->first) : less(budget, best->first, key));
    if (better) best = {key, item};
  }
  return best ? best->second : Value::undefined("the list is empty: it has no " + name);
}

Value summed(Budget& budget, const std::string& name, const Value& value,
             const Arguments& arguments) {
  const Bound bound(filter_called(name), arguments, {"attribute", "start"});
  Value total = bound.find(1) == nullptr ? Value::integer(0) : bound.at(1);
  if (total.is<TextPtr>()) fault("the filter 'sum' adds no strings: use | join");
  const bool by_attribute = bound.find(0) != nullptr && !bound.at(0).is<None>();
  for (const Value& item : iterate(budget, value)) {
    total = compute(budget, Arithmetic::kAdd, total,
                    by_attribute ? get_path(budget, item, bound.at(0)) : item);
  }
  return total;
}

Value batched(Budget& budget, const std::string& name, const Value& value,
              const Arguments& arguments) {
  const Bound bound(filter_called(name), arguments, {"linecount", "fill_with"}, 1);
  return make_generator(budget, [&](std::vector<Value>& batches) {
    const int64_t count = bound.integer_or(0, 0);
    if (count < 1 || count > 100'000) fault("the filter 'batch' wants 1 to 100000, not {}", count);
    std::vector<Value> batch;
    for (const Value& item : iterate(budget, value)) {
      if (static_cast<int64_t>(batch.size()) == count) {
        batches.push_back(make_list(budget, std::exchange(batch, {})));
      }
      batch.push_back(item);
    }
    if (batch.empty()) return;
    if (bound.find(1) != nullptr && !bound.at(1).is<None>()) {
      batch.resize(static_cast<size_t>(count), bound.at(1));
    }
    batches.push_back(make_list(budget, std::move(batch)));
  });
}

constexpr FilterRow kFilters[] = {
    {"batch", batched},        {"count", length},         {"d", with_default},
    {"default", with_default}, {"dictsort", dict_sorted}, {"first", first},
    {"items", pairs},          {"join", joined},          {"last", last},
    {"length", length},        {"list", as_list},         {"max", extreme},
    {"min", extreme},          {"reverse", reversed},     {"sort", list_sorted},
    {"sum", summed},           {"unique", unique},
};

}  // namespace

std::span<const FilterRow> list_filters() { return kFilters; }

}  // namespace tessera::jinja
