#include <algorithm>

#include "data/template/functions/filters.h"
#include "data/template/functions/methods.h"
#include "data/template/values/compare.h"
#include "data/template/values/format.h"
#include "data/template/values/text_ops.h"
#include "data/template/values/write.h"

namespace tessera::jinja {
namespace {

Value cased(Budget& budget, const std::string& name, const Value& value,
            const Arguments& arguments) {
  const Bound none("the filter '" + name + "'", arguments, {});
  const std::string text = text_of(budget, value);
  if (name == "upper") return make_text(budget, upper(text));
  if (name == "lower") return make_text(budget, lower(text));
  return make_text(budget, name == "title" ? title_filter(text) : capitalize(text));
}

Value trimmed(Budget& budget, const std::string& /*name*/, const Value& value,
              const Arguments& arguments) {
  const Bound bound("the filter 'trim'", arguments, {"chars"});
  return make_text(budget,
                   std::string(strip(text_of(budget, value), Side::kBoth, bound.maybe_text(0))));
}

Value as_string(Budget& budget, const std::string& name, const Value& value,
                const Arguments& arguments) {
  const Bound none("the filter '" + name + "'", arguments, {});
  const Value text = make_text(budget, text_of(budget, value));
  return name == "safe" || value.is_safe() ? text.marked_safe() : text;
}

Value replaced(Budget& budget, const std::string& /*name*/, const Value& value,
               const Arguments& arguments) {
  const Bound bound("the filter 'replace'", arguments, {"old", "new", "count"}, 2);
  Arguments plain;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    plain.values.push_back(make_text(budget, text_of(budget, bound.at(i))));
  }
  if (bound.find(2) != nullptr && !bound.at(2).is<None>()) plain.values.push_back(bound.at(2));
  return call_text_method(budget, text_of(budget, value), "replace", plain);
}

Value formatted(Budget& budget, const std::string& /*name*/, const Value& value,
                const Arguments& arguments) {
  if (!arguments.values.empty() && !arguments.named.empty()) {
    fault("the filter 'format' takes values or names, not both");
  }
  if (arguments.named.empty()) {
    const Value values = make_items(budget, ItemsKind::kTuple, arguments.values);
    return make_text(budget, percent_format(budget, text_of(budget, value), values));
  }
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [name, held] : arguments.named) {
    entries.emplace_back(make_text(budget, name), held);
  }
  const Value values = make_dict(budget, std::move(entries));
  return make_text(budget, percent_format(budget, text_of(budget, value), values));
}

std::string indention(Budget& budget, const Value* width) {
  if (width == nullptr) return "    ";
  if (const std::string* text = width->text()) return *text;
  const auto count = as_integer(*width);
  if (!count) fault("the filter 'indent' wants an integer or a string for 'width'");
  budget.make(static_cast<size_t>(std::clamp<int64_t>(*count, 0, budget.limits().made_bytes + 1)));
  return std::string(static_cast<size_t>(std::max<int64_t>(*count, 0)), ' ');
}

Value indented(Budget& budget, const std::string& /*name*/, const Value& value,
               const Arguments& arguments) {
  const Bound bound("the filter 'indent'", arguments, {"width", "first", "blank"});
  if (value.is<Undefined>()) fail_undefined(value);
  if (value.text() == nullptr)
    fault("the filter 'indent' wants a string, not {}", kind_words(value));
  const std::string by = indention(budget, bound.find(0));
  const bool blank = bound.truth_or(2, false);
  const std::string text = *value.text() + "\n";  // as Jinja does, for the lines of an empty text
  std::string result = bound.truth_or(1, false) ? by : "";
  bool first = true;
  for (const std::string_view line : split_lines(text, false)) {
    budget.make(by.size() + line.size());
    if (!first) result += "\n";
    if (!first && (blank || !line.empty())) result += by;
    first = false;
    result += line;
  }
  return make_text(budget, std::move(result));
}

std::optional<std::string> json_indent(Budget& budget, const Value* indent) {
  if (indent == nullptr || indent->is<None>()) return std::nullopt;
  return indention(budget, indent);
}

Value as_json(Budget& budget, const std::string& /*name*/, const Value& value,
              const Arguments& arguments) {
  const Bound bound("the filter 'tojson'", arguments,
                    {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ensure_ascii = bound.truth_or(0, false),
                  .sort_keys = bound.truth_or(3, false),
                  .indent = json_indent(budget, bound.find(1))};
  if (style.indent) style.between = ",";
  if (const Value* separators = bound.find(2); separators != nullptr && !separators->is<None>()) {
    const std::vector<Value> both = iterate(budget, *separators);
    if (both.size() != 2 || both[0].text() == nullptr || both[1].text() == nullptr) {
      fault("the filter 'tojson' wants two strings for 'separators'");
    }
    style.between = *both[0].text();
    style.after_key = *both[1].text();
  }
  return make_text(budget, json_of(budget, value, style));
}

constexpr FilterRow kFilters[] = {
    {"capitalize", cased}, {"format", formatted}, {"indent", indented},  {"lower", cased},
    {"replace", replaced}, {"safe", as_string},   {"string", as_string}, {"title", cased},
    {"tojson", as_json},   {"trim", trimmed},     {"upper", cased},
};

}  // namespace

std::span<const FilterRow> text_filters() { return kFilters; }

}  // namespace tessera::jinja
