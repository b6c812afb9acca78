// The values that templates compute with: those of Python that JSON has, and the few more that
// templates make (tuples, views of mappings, generators, namespaces, macros, loops).
// Values are immutable and shared, but for generators (used up once), loops and namespaces; the
// latter live in the renderer, so that no ring of them outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "data/template/values/budget.h"

namespace tessera::jinja {

class Value;
class Loop;
struct Callable;
struct Dict;
struct Generator;
struct Items;
struct Namespace;

// What has no value: it prints as nothing and counts as false; all else that is done with it fails
// with `why`.
struct Undefined {
  std::shared_ptr<const std::string> why;
};
struct None {};

using TextPtr = std::shared_ptr<const std::string>;  // UTF-8, always valid
using ItemsPtr = std::shared_ptr<const Items>;
using DictPtr = std::shared_ptr<const Dict>;
using GeneratorPtr = std::shared_ptr<Generator>;
using CallablePtr = std::shared_ptr<const Callable>;
using LoopPtr = std::shared_ptr<Loop>;

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, TextPtr, ItemsPtr, DictPtr,
                            GeneratorPtr, CallablePtr, LoopPtr, Namespace*>;

  Value() = default;  // undefined
  explicit Value(Data data) : data_(std::move(data)) {}

  static Value none() { return Value(None{}); }
  static Value boolean(bool value) { return Value(Data(value)); }
  static Value integer(int64_t value) { return Value(Data(value)); }
  static Value real(double value) { return Value(Data(value)); }
  static Value undefined(std::string why);

  template <typename T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&data_);
  }
  template <typename T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(data_);
  }
  [[nodiscard]] const std::string* text() const;
  [[nodiscard]] const Items* items() const;
  [[nodiscard]] const Dict* dict() const;
  [[nodiscard]] const Data& data() const { return data_; }

  // A string that `| safe` has marked: `+` escapes for HTML what it is joined with, as Python does.
  [[nodiscard]] bool is_safe() const { return is_safe_; }
  [[nodiscard]] Value marked_safe() const;

 private:
  Data data_;
  bool is_safe_ = false;
};

enum class ItemsKind : uint8_t { kList, kTuple, kRange, kKeys, kValues, kPairs };

struct Items {
  ItemsKind kind = ItemsKind::kList;
  std::vector<Value> values;
  int depth = 1;  // of what is nested in it: bounded, so that no walk over a value is endless
};

// In the order in which its keys came. Keys differ in Python's sense (1 and 1.0 are one key).
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string_view, size_t> by_text;  // where there are many
  int depth = 1;
  [[nodiscard]] const Value* find(std::string_view key) const;
};

struct Generator {
  std::vector<Value> values;
  size_t next = 0;  // those before are used up
  int depth = 1;
  std::string failure;  // what happens behind the last one, where it is not empty

  // Null at the end. Throws the failure there.
  const Value* take();
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct MacroNode;

enum class CallableKind : uint8_t { kMacro, kFunction, kMethod, kCycle };

struct Callable {
  CallableKind kind = CallableKind::kFunction;
  std::string name = {};
  Value self = {};                   // of a method; the loop of `loop.cycle`
  const MacroNode* macro = nullptr;  // of a macro or a caller()
  size_t scope = 0;                  // where the macro was defined,
  uint64_t serial = 0;               // and which scope that was
  int depth = 1;
};

// Values with parts charge the budget and refuse to nest deeper than 100.
Value make_text(Budget& budget, std::string text);
Value make_items(Budget& budget, ItemsKind kind, std::vector<Value> values);
inline Value make_list(Budget& budget, std::vector<Value> values) {
  return make_items(budget, ItemsKind::kList, std::move(values));
}
// Python works generators out when they are looped over. Here `fill` does it at once, but what it
// throws is thrown only there: a generator that nobody uses may be wrong.
Value make_generator(Budget& budget, const std::function<void(std::vector<Value>&)>& fill);
// The last of equal keys counts, in the place of the first. Fails for keys that Python cannot hash.
Value make_dict(Budget& budget, std::vector<std::pair<Value, Value>> entries);
void require_hashable(const Value& key);
Value make_method(const Value& self, std::string_view name);

Value from_json(Budget& budget, const nlohmann::ordered_json& json);

// "a string", "a list": for messages.
std::string_view kind_words(const Value& value);
int depth_of(const Value& value);
// The depth of what holds something of depth `inner`. Fails above 100.
int nested_depth(int inner);

bool truth(const Value& value);
// Fails for what Python's len() refuses.
int64_t length_of(Budget& budget, const Value& value);
// What a loop over it sees; uses up a generator. Fails for what Python's iter() refuses.
std::vector<Value> iterate(Budget& budget, const Value& value);
bool is_iterable(const Value& value);
[[noreturn]] void fail_undefined(const Value& value);

}  // namespace tessera::jinja
