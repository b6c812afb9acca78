#include "data/template/functions/methods.h"

#include <algorithm>

#include "base/text/text.h"
#include "data/template/values/compare.h"

namespace tessera::jinja {
namespace {

// What Python 3.11 has beside the methods that are known here, for refusals by name.
constexpr std::string_view kTextRefused =
    "casefold center encode expandtabs format_map isalnum isalpha isascii isdecimal isidentifier "
    "isnumeric isprintable istitle ljust maketrans rindex rjust swapcase translate";
constexpr std::string_view kDictKnown = "items keys values get copy";
constexpr std::string_view kDictChanges = "clear pop popitem setdefault update";
constexpr std::string_view kListKnown = "index count copy";
constexpr std::string_view kListChanges = "append clear extend insert pop remove reverse sort";
constexpr std::string_view kIntegerRefused =
    "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real "
    "to_bytes";
constexpr std::string_view kRealRefused =
    "as_integer_ratio conjugate fromhex hex imag is_integer real";
constexpr std::string_view kMacroRefused =
    "name arguments caller catch_kwargs catch_varargs explicit_caller";

bool has_word(std::string_view words, std::string_view word) {
  const std::vector<std::string_view> all = split(words, ' ');
  return std::find(all.begin(), all.end(), word) != all.end();
}

MethodKind method_of_items(const Items& items, std::string_view name) {
  switch (items.kind) {
    case ItemsKind::kList:
      if (has_word(kListKnown, name)) return MethodKind::kKnown;
      return has_word(kListChanges, name) ? MethodKind::kChanges : MethodKind::kNone;
    case ItemsKind::kTuple:
      return name == "index" || name == "count" ? MethodKind::kKnown : MethodKind::kNone;
    case ItemsKind::kRange:
      return has_word("start stop step index count", name) ? MethodKind::kRefused
                                                           : MethodKind::kNone;
    default:
      return has_word("mapping isdisjoint", name) ? MethodKind::kRefused : MethodKind::kNone;
  }
}

Value call_list_method(Budget& budget, const Value& self, const std::string& name,
                       const Arguments& arguments) {
  const std::vector<Value>& values = self.items()->values;
  if (name == "copy") {
    const Bound none("copy()", arguments, {});
    return self;
  }
  const Bound bound(name + "()", arguments, {"value"}, 1);
  int64_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!equal(budget, values[i], bound.at(0))) continue;
    if (name == "index") return Value::integer(static_cast<int64_t>(i));
    ++count;
  }
  if (name == "index") fault("index(): the value is not in the list");
  return Value::integer(count);
}

Value call_dict_method(Budget& budget, const Value& self, const std::string& name,
                       const Arguments& arguments) {
  const Dict& dict = *self.dict();
  if (name == "get") {
    const Bound bound("get()", arguments, {"key", "default"}, 1);
    if (!bound.at(0).is<Undefined>()) require_hashable(bound.at(0));
    const Value* found = find_key(budget, dict, bound.at(0));
    if (found != nullptr) return *found;
    return bound.find(1) == nullptr ? Value::none() : bound.at(1);
  }
  const Bound none(name + "()", arguments, {});
  if (name == "copy") return self;
  std::vector<Value> values;
  for (const auto& [key, value] : dict.entries) {
    if (name == "items") {
      values.push_back(make_items(budget, ItemsKind::kTuple, {key, value}));
    } else {
      values.push_back(name == "keys" ? key : value);
    }
  }
  const ItemsKind kind = name == "items"  ? ItemsKind::kPairs
                         : name == "keys" ? ItemsKind::kKeys
                                          : ItemsKind::kValues;
  return make_items(budget, kind, std::move(values));
}

}  // namespace

MethodKind method_of(const Value& value, std::string_view name) {
  if (value.is<TextPtr>()) {
    if (is_text_method(name)) return MethodKind::kKnown;
    return has_word(kTextRefused, name) ? MethodKind::kRefused : MethodKind::kNone;
  }
  if (value.is<DictPtr>()) {
    if (has_word(kDictKnown, name)) return MethodKind::kKnown;
    if (name == "fromkeys") return MethodKind::kRefused;
    return has_word(kDictChanges, name) ? MethodKind::kChanges : MethodKind::kNone;
  }
  if (const Items* items = value.items()) return method_of_items(*items, name);
  const bool refused = value.is<int64_t>() || value.is<bool>() ? has_word(kIntegerRefused, name)
                       : value.is<double>()
                           ? has_word(kRealRefused, name)
                           : value.is<CallablePtr>() && has_word(kMacroRefused, name);
  return refused ? MethodKind::kRefused : MethodKind::kNone;
}

Value call_method(Budget& budget, const Value& self, const std::string& name,
                  const Arguments& arguments) {
  if (const std::string* text = self.text()) {
    return call_text_method(budget, *text, name, arguments);
  }
  if (self.is<DictPtr>()) return call_dict_method(budget, self, name, arguments);
  return call_list_method(budget, self, name, arguments);
}

}  // namespace tessera::jinja
