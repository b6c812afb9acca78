#include "data/template/values/compare.h"

#include <algorithm>

namespace tessera::jinja {
namespace {

// The sign of a - b; nothing where one is no number. Integers are compared as such.
std::optional<double> number_order(const Value& a, const Value& b) {
  const auto x = as_integer(a), y = as_integer(b);
  if (x && y) return *x < *y ? -1 : (*x > *y ? 1 : 0);
  const auto p = as_real(a), q = as_real(b);
  if (!p || !q) return std::nullopt;
  if (*p == *q) return 0;
  return *p - *q;  // NaN stays NaN: no comparison holds
}

bool equal_items(Budget& budget, const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Value& x, const Value& y) { return equal(budget, x, y); });
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = find_key(budget, b, entry.first);
    return other != nullptr && equal(budget, entry.second, *other);
  });
}

// Views and ranges compare as Python's do only with their like.
bool same_kind(ItemsKind a, ItemsKind b) { return a == b && a != ItemsKind::kValues; }

[[noreturn]] void fail_order(const Value& a, const Value& b) {
  if (a.is<Undefined>()) fail_undefined(a);
  if (b.is<Undefined>()) fail_undefined(b);
  fault("{} and {} have no order: compare values of one kind", kind_words(a), kind_words(b));
}

bool less_items(Budget& budget, const Items& a, const Items& b) {
  for (size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i) {
    if (!equal(budget, a.values[i], b.values[i])) return less(budget, a.values[i], b.values[i]);
  }
  return a.values.size() < b.values.size();
}

bool any_equal(Budget& budget, const std::vector<Value>& values, const Value& item) {
  return std::any_of(values.begin(), values.end(),
                     [&](const Value& value) { return equal(budget, value, item); });
}

}  // namespace

std::optional<int64_t> as_integer(const Value& value) {
  if (const bool* truth = value.as<bool>()) return *truth ? 1 : 0;
  if (const int64_t* integer = value.as<int64_t>()) return *integer;
  return std::nullopt;
}

std::optional<double> as_real(const Value& value) {
  if (const double* real = value.as<double>()) return *real;
  if (const auto integer = as_integer(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

const Value* find_key(Budget& budget, const Dict& dict, const Value& key) {
  budget.step();
  if (const std::string* text = key.text()) return dict.find(*text);
  for (const auto& [name, value] : dict.entries) {
    if (equal(budget, name, key)) return &value;
  }
  return nullptr;
}

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (const auto order = number_order(a, b)) return *order == 0;
  if (const std::string* x = a.text(), *y = b.text(); x != nullptr && y != nullptr) {
    budget.step(static_cast<int64_t>(x->size() / 256));
    return *x == *y;
  }
  if (const Items* x = a.items(), *y = b.items(); x != nullptr && y != nullptr) {
    if (x == y) return true;
    return same_kind(x->kind, y->kind) && equal_items(budget, x->values, y->values);
  }
  if (const Dict* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr) {
    return equal_dicts(budget, *x, *y);
  }
  if (a.data().index() != b.data().index()) return false;
  if (a.is<None>() || a.is<Undefined>()) return true;
  if (const auto* x = a.as<Namespace*>()) return *x == *b.as<Namespace*>();
  if (const auto* x = a.as<GeneratorPtr>()) return *x == *b.as<GeneratorPtr>();
  if (const auto* x = a.as<LoopPtr>()) return *x == *b.as<LoopPtr>();
  if (const auto* x = a.as<CallablePtr>()) return *x == *b.as<CallablePtr>();
  return false;
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (const auto order = number_order(a, b)) return *order < 0;
  if (const std::string* x = a.text(), *y = b.text(); x != nullptr && y != nullptr) {
    budget.step(static_cast<int64_t>(x->size() / 256));
    return *x < *y;  // bytes of UTF-8 are in the order of characters
  }
  const Items *x = a.items(), *y = b.items();
  const bool ordered = x != nullptr && y != nullptr && x->kind == y->kind &&
                       (x->kind == ItemsKind::kList || x->kind == ItemsKind::kTuple);
  if (!ordered) fail_order(a, b);
  return less_items(budget, *x, *y);
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  budget.step();
  if (const std::string* text = container.text()) {
    const std::string* part = item.text();
    if (part == nullptr) {
      if (item.is<Undefined>()) fail_undefined(item);
      fault("{} is looked for in a string: only a string can be in one", kind_words(item));
    }
    budget.step(static_cast<int64_t>(text->size() / 64));
    return text->find(*part) != text->npos;
  }
  if (const Dict* dict = container.dict()) {
    if (!item.is<Undefined>()) require_hashable(item);
    return find_key(budget, *dict, item) != nullptr;
  }
  if (const Items* items = container.items()) return any_equal(budget, items->values, item);
  if (const GeneratorPtr* held = container.as<GeneratorPtr>()) {
    while (const Value* value = (*held)->take()) {
      if (equal(budget, *value, item)) return true;
    }
    return false;
  }
  if (container.is<Undefined>()) return false;
  fault("'in' needs a list, a mapping or a string on its right, not {}", kind_words(container));
}

bool compare(Budget& budget, Comparison how, const Value& a, const Value& b) {
  switch (how) {
    case Comparison::kEqual:
      return equal(budget, a, b);
    case Comparison::kNotEqual:
      return !equal(budget, a, b);
    case Comparison::kLess:
      return less(budget, a, b);
    case Comparison::kGreater:
      return less(budget, b, a);
    case Comparison::kLessEqual:
    case Comparison::kGreaterEqual:
      break;
  }
  const bool up = how == Comparison::kLessEqual;
  const Value& small = up ? a : b;
  const Value& large = up ? b : a;
  return less(budget, small, large) || equal(budget, small, large);
}

}  // namespace tessera::jinja
