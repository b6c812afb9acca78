#include "data/template/values/loop.h"

#include <algorithm>

namespace tessera::jinja {

Loop::Loop(std::vector<Value> values, Accept accept)
    : values_(std::move(values)), accept_(std::move(accept)) {
  for (const Value& value : values_) depth_ = std::max(depth_, depth_of(value));
  depth_ = nested_depth(depth_);
  if (!accept_) {
    accepted_ = std::move(values_);
    values_.clear();
  }
}

bool Loop::look_ahead() {
  while (looked_at_ < values_.size()) {
    const Value& value = values_[looked_at_++];
    if (!accept_ || !accept_(value)) continue;
    accepted_.push_back(value);
    return true;
  }
  return false;
}

const Value* Loop::next_item() {
  const auto next = static_cast<size_t>(index0_ + 1);
  if (next >= accepted_.size() && !look_ahead()) return nullptr;
  return &accepted_[next];
}

const Value* Loop::previous_item() const {
  return index0_ < 1 ? nullptr : &accepted_[static_cast<size_t>(index0_ - 1)];
}

const Value* Loop::advance() {
  const Value* value = next_item();
  if (value != nullptr) ++index0_;
  return value;
}

void Loop::close() {
  accept_ = nullptr;
  looked_at_ = values_.size();
}

int64_t Loop::length() {
  while (look_ahead()) {
  }
  return static_cast<int64_t>(accepted_.size());
}

std::optional<Value> loop_attribute(const LoopPtr& loop, std::string_view name) {
  if (name == "index") return Value::integer(loop->index0() + 1);
  if (name == "index0") return Value::integer(loop->index0());
  if (name == "first") return Value::boolean(loop->index0() == 0);
  if (name == "last") return Value::boolean(loop->next_item() == nullptr);
  if (name == "length") return Value::integer(loop->length());
  if (name == "revindex") return Value::integer(loop->length() - loop->index0());
  if (name == "revindex0") return Value::integer(loop->length() - loop->index0() - 1);
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem") {
    const Value* item = loop->previous_item();
    return item == nullptr ? Value::undefined("there is no previous item") : *item;
  }
  if (name == "nextitem") {
    const Value* item = loop->next_item();
    return item == nullptr ? Value::undefined("there is no next item") : *item;
  }
  if (name == "cycle") {
    return Value(std::make_shared<const Callable>(Callable{.kind = CallableKind::kCycle,
                                                           .name = "cycle",
                                                           .self = Value(loop),
                                                           .depth = nested_depth(loop->depth())}));
  }
  if (name == "changed") fault("loop.changed is not supported: keep the value in a namespace");
  return std::nullopt;
}

}  // namespace tessera::jinja
