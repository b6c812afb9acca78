#include <algorithm>
#include <array>

#include "data/template/functions/methods.h"
#include "data/template/values/format.h"
#include "data/template/values/text_ops.h"
#include "data/template/values/write.h"

namespace tessera::jinja {
namespace {

using Method = Value (*)(Budget&, const std::string&, const std::string&, const Arguments&);

Value list_of(Budget& budget, const std::vector<std::string_view>& pieces) {
  std::vector<Value> values;
  budget.make(pieces.size() * sizeof(Value));
  for (const std::string_view piece : pieces) {
    values.push_back(make_text(budget, std::string(piece)));
  }
  return make_list(budget, std::move(values));
}

Value stripped(Budget& budget, const std::string& self, const std::string& name,
               const Arguments& arguments) {
  const Bound bound(name + "()", arguments, {"chars"});
  const Side side = name == "lstrip" ? Side::kLeft : name == "rstrip" ? Side::kRight : Side::kBoth;
  return make_text(budget, std::string(strip(self, side, bound.maybe_text(0))));
}

Value split_method(Budget& budget, const std::string& self, const std::string& name,
                   const Arguments& arguments) {
  const Bound bound(name + "()", arguments, {"sep", "maxsplit"});
  const auto separator = bound.maybe_text(0);
  if (separator && separator->empty()) fault("{}(): the separator is empty", name);
  const int64_t most = bound.integer_or(1, -1);
  budget.make(self.size());
  return list_of(budget, name == "split" ? split_text(self, separator, most)
                                         : split_from_right(self, separator, most));
}

Value split_lines_method(Budget& budget, const std::string& self, const std::string& /*name*/,
                         const Arguments& arguments) {
  const Bound bound("splitlines()", arguments, {"keepends"});
  return list_of(budget, split_lines(self, bound.truth_or(0, false)));
}

Value cased(Budget& budget, const std::string& self, const std::string& name,
            const Arguments& arguments) {
  const Bound none(name + "()", arguments, {});
  budget.make(self.size());
  if (name == "upper") return make_text(budget, upper(self));
  if (name == "lower") return make_text(budget, lower(self));
  return make_text(budget, name == "title" ? title(self) : capitalize(self));
}

Value starts_or_ends(Budget& budget, const std::string& self, const std::string& name,
                     const Arguments& arguments) {
  const Bound bound(name + "()", arguments, {"prefix"}, 1);
  const auto matches = [&](const std::string& part) {
    return name == "startswith" ? self.starts_with(part) : self.ends_with(part);
  };
  const Items* several = bound.at(0).items();
  if (several == nullptr || several->kind != ItemsKind::kTuple) {
    return Value::boolean(matches(bound.text(0)));
  }
  for (const Value& one : several->values) {
    budget.step();
    const std::string* part = one.text();
    if (part == nullptr) fault("{}() wants strings, not {}", name, kind_words(one));
    if (matches(*part)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value replaced(Budget& budget, const std::string& self, const std::string& /*name*/,
               const Arguments& arguments) {
  const Bound bound("replace()", arguments, {"old", "new", "count"}, 2);
  const std::string &old = bound.text(0), &with = bound.text(1);
  // Counted first: the result may be far larger than what it is made of.
  budget.make(self.size());
  const auto times = static_cast<size_t>(count_text(self, old));
  if (with.size() > 0 && times > static_cast<size_t>(budget.limits().made_bytes) / with.size()) {
    fault("replace() would make more than {} bytes", budget.limits().made_bytes);
  }
  budget.make(times * with.size());
  return make_text(budget, replace_text(self, old, with, bound.integer_or(2, -1)));
}

Value joined(Budget& budget, const std::string& self, const std::string& /*name*/,
             const Arguments& arguments) {
  const Bound bound("join()", arguments, {"iterable"}, 1);
  std::string text;
  bool first = true;
  for (const Value& value : iterate(budget, bound.at(0))) {
    const std::string* part = value.text();
    if (part == nullptr) fault("join() wants strings, not {}: use | join", kind_words(value));
    budget.make(part->size() + self.size());
    if (!first) text += self;
    first = false;
    text += *part;
  }
  return make_text(budget, std::move(text));
}

Value formatted(Budget& budget, const std::string& self, const std::string& /*name*/,
                const Arguments& arguments) {
  return make_text(budget, brace_format(budget, self, arguments));
}

Value found(Budget& budget, const std::string& self, const std::string& name,
            const Arguments& arguments) {
  const Bound bound(name + "()", arguments, {"sub"}, 1);
  const std::string& part = bound.text(0);
  budget.make(self.size());
  if (name == "count") return Value::integer(count_text(self, part));
  const size_t at = name == "rfind" ? self.rfind(part) : self.find(part);
  if (at != self.npos)
    return Value::integer(count_characters(std::string_view(self).substr(0, at)));
  if (name == "index") fault("index(): the string does not have {}", repr_of(budget, bound.at(0)));
  return Value::integer(-1);
}

Value without_affix(Budget& budget, const std::string& self, const std::string& name,
                    const Arguments& arguments) {
  const Bound bound(name + "()", arguments, {"affix"}, 1);
  std::string_view text = self;
  const std::string& part = bound.text(0);
  if (name == "removeprefix" && text.starts_with(part)) text.remove_prefix(part.size());
  if (name == "removesuffix" && text.ends_with(part)) text.remove_suffix(part.size());
  return make_text(budget, std::string(text));
}

Value parted(Budget& budget, const std::string& self, const std::string& name,
             const Arguments& arguments) {
  const Bound bound(name + "()", arguments, {"sep"}, 1);
  const std::string& separator = bound.text(0);
  if (separator.empty()) fault("{}(): the separator is empty", name);
  const bool right = name == "rpartition";
  const size_t at = right ? self.rfind(separator) : self.find(separator);
  std::array<std::string, 3> parts = {self.substr(0, at), separator, ""};
  if (at == self.npos) {
    parts =
        right ? std::array<std::string, 3>{"", "", self} : std::array<std::string, 3>{self, "", ""};
  } else {
    parts[2] = self.substr(at + separator.size());
  }
  std::vector<Value> values;
  for (std::string& part : parts) values.push_back(make_text(budget, std::move(part)));
  return make_items(budget, ItemsKind::kTuple, std::move(values));
}

Value classified(Budget& budget, const std::string& self, const std::string& name,
                 const Arguments& arguments) {
  const Bound none(name + "()", arguments, {});
  budget.make(self.size());
  if (name == "isupper") return Value::boolean(is_all_upper(self));
  if (name == "islower") return Value::boolean(is_all_lower(self));
  if (name == "isspace") return Value::boolean(!self.empty() && strip(self).empty());
  const bool digits = std::all_of(self.begin(), self.end(), [](unsigned char c) {
    if (c >= 0x80) fault("isdigit() is supported for ASCII alone");
    return c >= '0' && c <= '9';
  });
  return Value::boolean(!self.empty() && digits);
}

Value zero_filled(Budget& budget, const std::string& self, const std::string& /*name*/,
                  const Arguments& arguments) {
  const Bound bound("zfill()", arguments, {"width"}, 1);
  const int64_t missing = bound.integer_or(0, 0) - count_characters(self);
  if (missing <= 0) return make_text(budget, self);
  budget.make(static_cast<size_t>(std::min(missing, budget.limits().made_bytes + 1)));
  const bool sign = self.starts_with('-') || self.starts_with('+');
  std::string text = self;
  return make_text(budget, text.insert(sign ? 1 : 0, static_cast<size_t>(missing), '0'));
}

struct Row {
  std::string_view name;
  Method method;
};
constexpr Row kMethods[] = {
    {"capitalize", cased},
    {"count", found},
    {"endswith", starts_or_ends},
    {"find", found},
    {"format", formatted},
    {"index", found},
    {"isdigit", classified},
    {"islower", classified},
    {"isspace", classified},
    {"isupper", classified},
    {"join", joined},
    {"lower", cased},
    {"lstrip", stripped},
    {"partition", parted},
    {"removeprefix", without_affix},
    {"removesuffix", without_affix},
    {"replace", replaced},
    {"rfind", found},
    {"rpartition", parted},
    {"rsplit", split_method},
    {"rstrip", stripped},
    {"split", split_method},
    {"splitlines", split_lines_method},
    {"startswith", starts_or_ends},
    {"strip", stripped},
    {"title", cased},
    {"upper", cased},
    {"zfill", zero_filled},
};

const Row* row_of(std::string_view name) {
  const auto* row = std::find_if(std::begin(kMethods), std::end(kMethods),
                                 [&](const Row& one) { return one.name == name; });
  return row == std::end(kMethods) ? nullptr : row;
}

}  // namespace

bool is_text_method(std::string_view name) { return row_of(name) != nullptr; }

Value call_text_method(Budget& budget, const std::string& self, const std::string& name,
                       const Arguments& arguments) {
  const Row* row = row_of(name);
  if (row == nullptr) fault("a string has no method '{}'", name);
  return row->method(budget, self, name, arguments);
}

}  // namespace tessera::jinja
