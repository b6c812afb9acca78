// The `loop` of a for: where it is, and what comes next.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "data/template/values/value.h"

namespace tessera::jinja {

// Items are looked at one by one, because `for ... if` may ask for what the body has changed;
// looking at the last or the next item looks one ahead, the length looks at all.
class Loop {
 public:
  using Accept = std::function<bool(const Value&)>;
  // `accept` may be empty: every item.
  Loop(std::vector<Value> values, Accept accept);

  // Goes to the next item; null at the end.
  const Value* advance();
  void close();  // the body is left: nothing more is looked at

  [[nodiscard]] int64_t index0() const { return index0_; }
  [[nodiscard]] int64_t length();
  [[nodiscard]] const Value* next_item();
  [[nodiscard]] const Value* previous_item() const;
  [[nodiscard]] int depth() const { return depth_; }

 private:
  bool look_ahead();  // false: there is no more

  std::vector<Value> values_;
  size_t looked_at_ = 0;
  std::vector<Value> accepted_;
  Accept accept_;
  int64_t index0_ = -1;
  int depth_ = 0;
};

// `loop.NAME`; nothing where a loop has no such attribute.
std::optional<Value> loop_attribute(const LoopPtr& loop, std::string_view name);

}  // namespace tessera::jinja
