// Which names mean what, block inside block.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "data/template/syntax/node.h"
#include "data/template/values/value.h"

namespace tessera::jinja {

// Scopes lie on a stack; a scope knows the one around it in the text, which need not be the one
// below (a macro sees what was around its definition). A scope that is gone is told by its serial
// number.
class Scopes {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // A scope that lasts as long as this, around it the scope `parent`.
  class Guard {
   public:
    Guard(Scopes& scopes, size_t parent) : scopes_(scopes), before_(scopes.current_) {
      scopes_.stack_.push_back({parent, ++scopes_.serials_, {}});
      scopes_.current_ = scopes_.stack_.size() - 1;
    }
    ~Guard() {
      scopes_.stack_.pop_back();
      scopes_.current_ = before_;
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Scopes& scopes_;
    size_t before_;
  };

  [[nodiscard]] size_t current() const { return current_; }
  [[nodiscard]] uint64_t serial() const { return stack_[current_].serial; }
  [[nodiscard]] bool is_there(size_t scope, uint64_t serial) const {
    return scope < stack_.size() && stack_[scope].serial == serial;
  }

  // Null where no scope has it. Valid until a name is set or a scope begins or ends.
  [[nodiscard]] const Value* find(Symbol symbol) const {
    for (size_t at = current_; at != kNone; at = stack_[at].parent) {
      for (const auto& [name, value] : stack_[at].values) {
        if (name == symbol) return &value;
      }
    }
    return nullptr;
  }
  // In the innermost scope.
  void set(Symbol symbol, Value value) {
    for (auto& [name, held] : stack_[current_].values) {
      if (name == symbol) {
        held = std::move(value);
        return;
      }
    }
    stack_[current_].values.emplace_back(symbol, std::move(value));
  }
  void clear() { stack_[current_].values.clear(); }

 private:
  struct Scope {
    size_t parent = kNone;
    uint64_t serial = 0;
    std::vector<std::pair<Symbol, Value>> values;
  };
  std::vector<Scope> stack_;
  size_t current_ = kNone;
  uint64_t serials_ = 0;
};

}  // namespace tessera::jinja
