#include "data/template/functions/access.h"

#include <algorithm>

#include "base/text/printable.h"
#include "data/template/functions/methods.h"
#include "data/template/values/compare.h"
#include "data/template/values/loop.h"
#include "data/template/values/text_ops.h"

namespace tessera::jinja {
namespace {

struct SliceRange {
  int64_t start = 0, stop = 0, step = 1;
};

Value missing(const Value& value, std::string_view name) {
  return Value::undefined(
      fmt::format("{} has no '{}'", kind_words(value), shortened(std::string(name), 60)));
}

// What has attributes of its own: methods, loops, namespaces.
std::optional<Value> own_attribute(const Value& value, const std::string& name) {
  if (const LoopPtr* loop = value.as<LoopPtr>()) return loop_attribute(*loop, name);
  if (const auto* space = value.as<Namespace*>()) {
    for (const auto& [key, held] : (*space)->attributes) {
      if (key == name) return held;
    }
    return std::nullopt;
  }
  switch (method_of(value, name)) {
    case MethodKind::kNone:
      return std::nullopt;
    case MethodKind::kKnown:
      return make_method(value, name);
    case MethodKind::kChanges:
      return Value::undefined(
          fmt::format("'{}' would change {}, which templates may not: make a new value, or keep it "
                      "in a namespace()",
                      name, kind_words(value)));
    case MethodKind::kRefused:
      break;
  }
  fault("'{}' of {} is not supported", name, kind_words(value));
}

std::optional<Value> indexed(Budget& budget, const Value& value, int64_t index) {
  if (const std::string* text = value.text()) {
    const int64_t size = length_of(budget, value);
    if (index < 0) index += size;
    if (index < 0 || index >= size) return std::nullopt;
    budget.step(static_cast<int64_t>(text->size() / 64));
    return make_text(budget, slice_text(*text, index, index + 1, 1));
  }
  const Items* items = value.items();
  if (items == nullptr || items->kind > ItemsKind::kRange) return std::nullopt;
  const auto size = static_cast<int64_t>(items->values.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return items->values[static_cast<size_t>(index)];
}

std::optional<Value> item_of(Budget& budget, const Value& value, const Value& key) {
  if (const Dict* dict = value.dict()) {
    const Value* found = find_key(budget, *dict, key);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (const auto index = as_integer(key)) return indexed(budget, value, *index);
  return std::nullopt;
}

std::optional<int64_t> bound_of(const Value& value) {
  if (value.is<None>()) return std::nullopt;
  const auto integer = as_integer(value);
  if (!integer) fault("a slice wants integers, not {}", kind_words(value));
  return integer;
}

// Python's slice.indices().
SliceRange resolve(int64_t size, const Value& start, const Value& stop, const Value& step) {
  SliceRange range;
  range.step = bound_of(step).value_or(1);
  if (range.step == 0) fault("the step of a slice is 0");
  // No step reaches further than the value: it cannot overflow then.
  range.step = std::clamp(range.step, -size - 1, size + 1);
  const int64_t low = range.step > 0 ? 0 : -1;
  const int64_t high = range.step > 0 ? size : size - 1;
  const auto place = [&](const Value& bound, int64_t otherwise) {
    const auto given = bound_of(bound);
    if (!given) return otherwise;
    return *given < 0 ? std::max(*given + size, low) : std::min(*given, high);
  };
  range.start = place(start, range.step > 0 ? low : high);
  range.stop = place(stop, range.step > 0 ? high : low);
  return range;
}

}  // namespace

Value get_attribute(Budget& budget, const Value& value, const std::string& name) {
  if (value.is<Undefined>()) fail_undefined(value);
  if (name.starts_with('_')) {
    const Dict* dict = value.dict();
    const Value* found = dict == nullptr ? nullptr : dict->find(name);
    return found == nullptr ? missing(value, name) : *found;
  }
  if (auto own = own_attribute(value, name)) return *std::move(own);
  budget.step();
  if (const Dict* dict = value.dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return missing(value, name);
}

Value get_item(Budget& budget, const Value& value, const Value& key) {
  if (value.is<Undefined>()) fail_undefined(value);
  if (auto item = item_of(budget, value, key)) return *std::move(item);
  if (const std::string* name = key.text()) {
    if (!name->starts_with('_')) {
      if (auto own = own_attribute(value, *name)) return *std::move(own);
    }
    return missing(value, *name);
  }
  if (const auto index = as_integer(key)) return missing(value, std::to_string(*index));
  return missing(value, kind_words(key));
}

Value get_slice(Budget& budget, const Value& value, const Value& start, const Value& stop,
                const Value& step) {
  if (value.is<Undefined>()) fail_undefined(value);
  const Items* items = value.items();
  const bool sliced = value.is<TextPtr>() || (items != nullptr && items->kind <= ItemsKind::kRange);
  if (!sliced) fault("{} has no parts that [:] could take", kind_words(value));
  const SliceRange range = resolve(length_of(budget, value), start, stop, step);
  if (const std::string* text = value.text()) {
    budget.make(text->size());
    if (range.step == 1 && range.stop <= range.start) return make_text(budget, "");
    return make_text(budget, slice_text(*text, range.start, range.stop, range.step));
  }
  std::vector<Value> values;
  for (int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step) {
    values.push_back(items->values[static_cast<size_t>(i)]);
  }
  return make_items(budget, items->kind, std::move(values));
}

Value get_path(Budget& budget, const Value& value, const Value& path) {
  const std::string* text = path.text();
  if (text == nullptr) return path.is<None>() ? value : get_item(budget, value, path);
  Value item = value;
  for (const std::string_view part : split_text(*text, ".", -1)) {
    const bool number =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    item = get_item(budget, item,
                    number ? Value::integer(std::stoll(std::string(part)))
                           : make_text(budget, std::string(part)));
  }
  return item;
}

}  // namespace tessera::jinja
