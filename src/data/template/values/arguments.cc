#include "data/template/values/arguments.h"

#include <algorithm>

#include "data/template/values/compare.h"

namespace tessera::jinja {

Bound::Bound(std::string what, const Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t num_required)
    : what_(std::move(what)), names_(names), values_(names.size()) {
  if (arguments.values.size() > names_.size()) {
    fault("{} takes at most {} arguments, not {}", what_, names_.size(), arguments.values.size());
  }
  for (size_t i = 0; i < arguments.values.size(); ++i) values_[i] = arguments.values[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) fault("{} has no argument '{}'", what_, name);
    auto& place = values_[static_cast<size_t>(found - names_.begin())];
    if (place) fault("{} is given its argument '{}' twice", what_, name);
    place = value;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (!values_[i]) fault("{} needs its argument '{}'", what_, names_[i]);
  }
}

void Bound::fail_kind(size_t i, std::string_view wanted) const {
  if (at(i).is<Undefined>()) fail_undefined(at(i));
  fault("{} wants {} for '{}', not {}", what_, wanted, names_[i], kind_words(at(i)));
}

bool Bound::truth_or(size_t i, bool otherwise) const {
  return values_[i] ? truth(*values_[i]) : otherwise;
}

int64_t Bound::integer_or(size_t i, int64_t otherwise) const {
  if (!values_[i]) return otherwise;
  const auto integer = as_integer(*values_[i]);
  if (!integer) fail_kind(i, "an integer");
  return *integer;
}

const std::string& Bound::text(size_t i) const {
  const std::string* text = at(i).text();
  if (text == nullptr) fail_kind(i, "a string");
  return *text;
}

std::optional<std::string_view> Bound::maybe_text(size_t i) const {
  if (!values_[i] || values_[i]->is<None>()) return std::nullopt;
  return text(i);
}

}  // namespace tessera::jinja
