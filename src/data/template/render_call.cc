#include <algorithm>

#include "base/text/printable.h"
#include "data/template/functions/date_text.h"
#include "data/template/functions/methods.h"
#include "data/template/renderer.h"
#include "data/template/values/compare.h"
#include "data/template/values/write.h"

namespace tessera::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // Jinja's sandbox has the same
constexpr size_t kMaxMessage = 500;
constexpr std::string_view kFunctions[] = {"range", "namespace", "dict", "raise_exception",
                                           "strftime_now"};

Value make_range(Budget& budget, const Arguments& arguments) {
  const Bound bound("range()", arguments, {"start", "stop", "step"}, 1);
  const bool from_zero = bound.find(1) == nullptr;
  const int64_t start = from_zero ? 0 : bound.integer_or(0, 0);
  const int64_t stop = bound.integer_or(from_zero ? 0 : 1, 0);
  const int64_t step = bound.integer_or(2, 1);
  if (step == 0) fault("range(): the step is 0");
  std::vector<Value> values;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(values.size()) == kMaxRange) {
      fault("range() has more than {} numbers", kMaxRange);
    }
    values.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_items(budget, ItemsKind::kRange, std::move(values));
}

// dict(mapping, name=value): the entries.
std::vector<std::pair<Value, Value>> entries_of(Budget& budget, std::string_view what,
                                                const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.values.size() > 1) fault("{} takes one mapping and names", what);
  if (!arguments.values.empty()) {
    const Dict* dict = arguments.values.front().dict();
    if (dict == nullptr) {
      fault("{} wants a mapping, not {}", what, kind_words(arguments.values.front()));
    }
    entries = dict->entries;
  }
  for (const auto& [name, value] : arguments.named) {
    entries.emplace_back(make_text(budget, name), value);
  }
  return entries;
}

}  // namespace

void Renderer::add_functions() {
  for (const std::string_view name : kFunctions) {
    set_name(name, Value(std::make_shared<const Callable>(Callable{.name = std::string(name)})));
  }
}

Value Renderer::make_macro(const MacroNode& macro) {
  return Value(std::make_shared<const Callable>(Callable{.kind = CallableKind::kMacro,
                                                         .name = macro.name,
                                                         .self = Value(),
                                                         .macro = &macro,
                                                         .scope = scopes_.current(),
                                                         .serial = scopes_.serial()}));
}

Value Renderer::call(const Value& function, const Arguments& arguments) {
  if (function.is<Undefined>()) fail_undefined(function);
  if (function.is<LoopPtr>()) fault("loop() of recursive loops is not supported: use a macro");
  const CallablePtr* held = function.as<CallablePtr>();
  if (held == nullptr) fault("{} is called, but is no function", kind_words(function));
  const CallablePtr callable = *held;  // a copy: the call may replace the name that holds it
  switch (callable->kind) {
    case CallableKind::kMacro:
      return call_macro(*callable, arguments);
    case CallableKind::kMethod:
      return call_method(budget_, callable->self, callable->name, arguments);
    case CallableKind::kCycle: {
      if (arguments.values.empty()) fault("loop.cycle() needs values");
      const int64_t index = (*callable->self.as<LoopPtr>())->index0();
      const auto count = static_cast<int64_t>(arguments.values.size());
      return arguments.values[static_cast<size_t>(std::max<int64_t>(index, 0) % count)];
    }
    case CallableKind::kFunction:
      break;
  }
  return call_function(callable->name, arguments);
}

Value Renderer::call_macro(const Callable& callable, const Arguments& arguments) {
  if (!scopes_.is_there(callable.scope, callable.serial)) {
    fault("the macro '{}' is called outside of the block that defines it: define it further out",
          callable.name);
  }
  const int line = line_;
  const Scopes::Guard scope(scopes_, callable.scope);
  bind_parameters(*callable.macro, arguments);
  std::string text;
  std::string* outer = std::exchange(out_, &text);
  run_block(callable.macro->body);
  out_ = outer;
  line_ = line;
  return make_text(budget_, std::move(text));
}

void Renderer::bind_parameters(const MacroNode& macro, const Arguments& arguments) {
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(macro.parameters, name, &Parameter::name);
    const bool extra = found == macro.parameters.end();
    if (extra && !macro.takes_more_names && !(name == "caller" && macro.takes_caller)) {
      fault("the macro '{}' has no parameter '{}'", macro.name, name);
    }
    const auto place = static_cast<size_t>(found - macro.parameters.begin());
    if (!extra && place < arguments.values.size()) {
      fault("the macro '{}' is given its parameter '{}' twice", macro.name, name);
    }
    if (!extra) scopes_.set(found->symbol, value);
  }
  if (arguments.values.size() > macro.parameters.size() && !macro.takes_more_values) {
    fault("the macro '{}' takes at most {} arguments, not {}", macro.name, macro.parameters.size(),
          arguments.values.size());
  }
  bind_more(macro, arguments);
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    const auto is_it = [&](const auto& named) { return named.first == parameter.name; };
    if (i < arguments.values.size()) {
      scopes_.set(parameter.symbol, arguments.values[i]);
    } else if (std::none_of(arguments.named.begin(), arguments.named.end(), is_it)) {
      scopes_.set(parameter.symbol, parameter.otherwise != nullptr
                                        ? eval(*parameter.otherwise)
                                        : Value::undefined(fmt::format(
                                              "parameter '{}' was not given", parameter.name)));
    }
  }
}

// varargs, kwargs and caller, where the body asks for them.
void Renderer::bind_more(const MacroNode& macro, const Arguments& arguments) {
  if (macro.takes_more_values) {
    const size_t taken = std::min(arguments.values.size(), macro.parameters.size());
    set_name("varargs", make_items(budget_, ItemsKind::kTuple,
                                   {arguments.values.begin() + static_cast<int64_t>(taken),
                                    arguments.values.end()}));
  }
  std::vector<std::pair<Value, Value>> more;
  Value caller = Value::undefined("caller() is called, but no {% call %} is around");
  for (const auto& [name, value] : arguments.named) {
    const bool is_one =
        std::ranges::find(macro.parameters, name, &Parameter::name) != macro.parameters.end();
    if (is_one) continue;
    if (name == "caller" && macro.takes_caller) {
      caller = value;
    } else {
      more.emplace_back(make_text(budget_, name), value);
    }
  }
  if (macro.takes_more_names) set_name("kwargs", make_dict(budget_, std::move(more)));
  const auto is_caller = [](const Parameter& parameter) { return parameter.name == "caller"; };
  if (macro.takes_caller &&
      std::none_of(macro.parameters.begin(), macro.parameters.end(), is_caller)) {
    set_name("caller", caller);
  }
}

Value Renderer::call_function(const std::string& name, const Arguments& arguments) {
  if (name == "range") return make_range(budget_, arguments);
  if (name == "namespace") return make_namespace(arguments);
  if (name == "dict") return make_dict(budget_, entries_of(budget_, "dict()", arguments));
  if (name == "raise_exception") {
    const Bound bound("raise_exception()", arguments, {"message"}, 1);
    fault("the template refuses this conversation: {}",
          shortened(text_of(budget_, bound.at(0)), kMaxMessage));
  }
  const Bound bound("strftime_now()", arguments, {"format"}, 1);
  if (!now_) fault("strftime_now() wants the date: it was not given");
  return make_text(budget_, date_text(bound.text(0), *now_));
}

Value Renderer::make_namespace(const Arguments& arguments) {
  Namespace& space = namespaces_.emplace_back();
  budget_.make(sizeof(Namespace));
  for (auto& [key, value] : entries_of(budget_, "namespace()", arguments)) {
    if (key.text() == nullptr) fault("namespace() wants names, not {}", kind_words(key));
    budget_.make(sizeof(Value));
    budget_.step(static_cast<int64_t>(space.attributes.size() / 8));
    const auto is_it = [&, &held = key](const auto& entry) { return entry.first == *held.text(); };
    const auto found = std::find_if(space.attributes.begin(), space.attributes.end(), is_it);
    if (found != space.attributes.end()) {
      found->second = value;
    } else {
      space.attributes.emplace_back(*key.text(), value);
    }
  }
  return Value(&space);
}

}  // namespace tessera::jinja
