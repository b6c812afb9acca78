// What stands between the parentheses of a call, and how functions read it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/template/values/value.h"

namespace tessera::jinja {

struct Arguments {
  std::vector<Value> values = {};
  std::vector<std::pair<std::string, Value>> named = {};
};

// The arguments of `what` in the order of its parameters. Fails, with `what`, for too many, unknown
// or missing ones.
class Bound {
 public:
  Bound(std::string what, const Arguments& arguments, std::initializer_list<std::string_view> names,
        size_t num_required = 0);

  // Null where it was not given.
  [[nodiscard]] const Value* find(size_t i) const { return values_[i] ? &*values_[i] : nullptr; }
  [[nodiscard]] const Value& at(size_t i) const { return *values_[i]; }
  [[nodiscard]] bool truth_or(size_t i, bool otherwise) const;
  [[nodiscard]] int64_t integer_or(size_t i, int64_t otherwise) const;
  [[nodiscard]] const std::string& text(size_t i) const;
  // Nothing where it was not given or is none.
  [[nodiscard]] std::optional<std::string_view> maybe_text(size_t i) const;

 private:
  [[noreturn]] void fail_kind(size_t i, std::string_view wanted) const;

  std::string what_;
  std::vector<std::string_view> names_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace tessera::jinja
