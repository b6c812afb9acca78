#include "data/template/functions/checks.h"

#include <algorithm>

#include "base/text/text.h"
#include "data/template/functions/filters.h"
#include "data/template/values/arithmetic.h"
#include "data/template/values/compare.h"
#include "data/template/values/text_ops.h"
#include "data/template/values/write.h"

namespace tessera::jinja {
namespace {

using Check = bool (*)(Budget&, const Value&, const Value&);

bool same(const Value& a, const Value& b) {
  if (a.data().index() != b.data().index()) return false;
  if (a.is<None>()) return true;
  if (const bool* truth = a.as<bool>()) return *truth == *b.as<bool>();
  if (const Items* items = a.items()) return items == b.items();
  if (const Dict* dict = a.dict()) return dict == b.dict();
  fault("'sameas' compares places in memory: use 'eq'");
}

bool divides(Budget& budget, const Value& value, const Value& divisor, int64_t rest) {
  return equal(budget, compute(budget, Arithmetic::kModulo, value, divisor), Value::integer(rest));
}

bool is_sequence(const Value& value) {
  const Items* items = value.items();
  return value.is<TextPtr>() || value.is<DictPtr>() || value.is<Undefined>() ||
         (items != nullptr && items->kind <= ItemsKind::kRange);
}

template <Comparison kHow>
bool compares(Budget& budget, const Value& value, const Value& other) {
  return compare(budget, kHow, value, other);
}

template <typename T>
bool holds(Budget& /*budget*/, const Value& value, const Value& /*other*/) {
  return value.is<T>();
}

template <bool kWanted>
bool is_exactly(Budget& /*budget*/, const Value& value, const Value& /*other*/) {
  const bool* held = value.as<bool>();
  return held != nullptr && *held == kWanted;
}

struct Row {
  std::string_view name;
  int num_arguments;
  Check check;
};
constexpr Row kChecks[] = {
    {"odd", 0,
     [](Budget& b, const Value& v, const Value&) { return divides(b, v, Value::integer(2), 1); }},
    {"even", 0,
     [](Budget& b, const Value& v, const Value&) { return divides(b, v, Value::integer(2), 0); }},
    {"divisibleby", 1,
     [](Budget& b, const Value& v, const Value& o) { return divides(b, v, o, 0); }},
    {"defined", 0, [](Budget&, const Value& v, const Value&) { return !v.is<Undefined>(); }},
    {"undefined", 0, holds<Undefined>},
    {"none", 0, holds<None>},
    {"boolean", 0, holds<bool>},
    {"true", 0, is_exactly<true>},
    {"false", 0, is_exactly<false>},
    {"integer", 0, holds<int64_t>},
    {"float", 0, holds<double>},
    {"number", 0, [](Budget&, const Value& v, const Value&) { return as_real(v).has_value(); }},
    {"string", 0, holds<TextPtr>},
    {"mapping", 0, holds<DictPtr>},
    {"sequence", 0, [](Budget&, const Value& v, const Value&) { return is_sequence(v); }},
    {"iterable", 0, [](Budget&, const Value& v, const Value&) { return is_iterable(v); }},
    {"callable", 0,
     [](Budget&, const Value& v, const Value&) {
       return v.is<CallablePtr>() || v.is<LoopPtr>() || v.is<Undefined>();
     }},
    {"upper", 0,
     [](Budget& b, const Value& v, const Value&) { return is_all_upper(text_of(b, v)); }},
    {"lower", 0,
     [](Budget& b, const Value& v, const Value&) { return is_all_lower(text_of(b, v)); }},
    {"filter", 0,
     [](Budget&, const Value& v, const Value&) {
       return v.text() != nullptr && is_filter(*v.text());
     }},
    {"test", 0,
     [](Budget&, const Value& v, const Value&) {
       return v.text() != nullptr && is_check(*v.text());
     }},
    {"sameas", 1, [](Budget&, const Value& v, const Value& o) { return same(v, o); }},
    {"in", 1, [](Budget& b, const Value& v, const Value& o) { return contains(b, o, v); }},
    {"eq", 1, compares<Comparison::kEqual>},
    {"equalto", 1, compares<Comparison::kEqual>},
    {"==", 1, compares<Comparison::kEqual>},
    {"ne", 1, compares<Comparison::kNotEqual>},
    {"!=", 1, compares<Comparison::kNotEqual>},
    {"gt", 1, compares<Comparison::kGreater>},
    {"greaterthan", 1, compares<Comparison::kGreater>},
    {">", 1, compares<Comparison::kGreater>},
    {"ge", 1, compares<Comparison::kGreaterEqual>},
    {">=", 1, compares<Comparison::kGreaterEqual>},
    {"lt", 1, compares<Comparison::kLess>},
    {"lessthan", 1, compares<Comparison::kLess>},
    {"<", 1, compares<Comparison::kLess>},
    {"le", 1, compares<Comparison::kLessEqual>},
    {"<=", 1, compares<Comparison::kLessEqual>},
};

const Row* row_of(std::string_view name) {
  const auto* row = std::find_if(std::begin(kChecks), std::end(kChecks),
                                 [&](const Row& one) { return one.name == name; });
  return row == std::end(kChecks) ? nullptr : row;
}

}  // namespace

bool is_check(std::string_view name) { return row_of(name) != nullptr; }

std::string check_suggestion(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Row& row : kChecks) known.push_back(row.name);
  return suggestion(name, known, "tests");
}

bool apply_check(Budget& budget, std::string_view name, const Value& value,
                 const Arguments& arguments) {
  budget.step();
  const Row* row = row_of(name);
  if (row == nullptr) fault("there is no test '{}'; {}", name, check_suggestion(name));
  const std::string what = fmt::format("the test '{}'", name);
  if (row->num_arguments == 0) {
    const Bound none(what, arguments, {});
    return row->check(budget, value, Value());
  }
  const Bound bound(what, arguments, {"other"}, 1);
  return row->check(budget, value, bound.at(0));
}

}  // namespace tessera::jinja
