#include "data/template/values/value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/template/values/compare.h"
#include "data/template/values/loop.h"
#include "data/template/values/text_ops.h"

namespace tessera::jinja {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kFewEntries = 8;

int deepest(const std::vector<Value>& values) {
  int depth = 0;
  for (const Value& value : values) depth = std::max(depth, depth_of(value));
  return depth;
}

void index_texts(Dict& dict) {
  if (dict.entries.size() <= kFewEntries) return;
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (const std::string* key = dict.entries[i].first.text()) dict.by_text.emplace(*key, i);
  }
}

struct Truth {
  bool operator()(const Undefined& /*value*/) const { return false; }
  bool operator()(const None& /*value*/) const { return false; }
  bool operator()(bool value) const { return value; }
  bool operator()(int64_t value) const { return value != 0; }
  bool operator()(double value) const { return value != 0; }
  bool operator()(const TextPtr& value) const { return !value->empty(); }
  bool operator()(const ItemsPtr& value) const { return !value->values.empty(); }
  bool operator()(const DictPtr& value) const { return !value->entries.empty(); }
  bool operator()(const GeneratorPtr& /*value*/) const { return true; }
  bool operator()(const CallablePtr& /*value*/) const { return true; }
  bool operator()(const LoopPtr& value) const { return value->length() > 0; }
  bool operator()(const Namespace* /*value*/) const { return true; }
};

std::vector<Value> characters_of(Budget& budget, std::string_view text) {
  budget.make(text.size() * sizeof(Value));
  std::vector<Value> values;
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    values.push_back(make_text(budget, std::string(text.substr(0, bytes))));
    text.remove_prefix(bytes);
  }
  return values;
}

}  // namespace

Value Value::undefined(std::string why) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(why))});
}

Value Value::marked_safe() const {
  Value marked = *this;
  marked.is_safe_ = true;
  return marked;
}

const std::string* Value::text() const {
  const TextPtr* held = as<TextPtr>();
  return held == nullptr ? nullptr : held->get();
}

const Items* Value::items() const {
  const ItemsPtr* held = as<ItemsPtr>();
  return held == nullptr ? nullptr : held->get();
}

const Dict* Value::dict() const {
  const DictPtr* held = as<DictPtr>();
  return held == nullptr ? nullptr : held->get();
}

const Value* Dict::find(std::string_view key) const {
  if (!by_text.empty()) {
    const auto found = by_text.find(key);
    return found == by_text.end() ? nullptr : &entries[found->second].second;
  }
  for (const auto& [name, value] : entries) {
    if (const std::string* text = name.text(); text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

void require_hashable(const Value& key) {
  if (const Items* items = key.items(); items != nullptr && items->kind == ItemsKind::kTuple) {
    for (const Value& item : items->values) require_hashable(item);
    return;
  }
  const bool hashable = key.is<None>() || key.is<bool>() || key.is<int64_t>() || key.is<double>() ||
                        key.is<TextPtr>();
  if (!hashable) fault("{} cannot be a key of a mapping: use a string", kind_words(key));
}

Value make_text(Budget& budget, std::string text) {
  budget.make(text.size());
  return Value(std::make_shared<const std::string>(std::move(text)));
}

Value make_items(Budget& budget, ItemsKind kind, std::vector<Value> values) {
  budget.make(values.size() * sizeof(Value));
  const int depth = nested_depth(deepest(values));
  return Value(std::make_shared<const Items>(Items{kind, std::move(values), depth}));
}

Value make_generator(Budget& budget, const std::function<void(std::vector<Value>&)>& fill) {
  auto generator = std::make_shared<Generator>();
  try {
    fill(generator->values);
  } catch (const TemplateFault& wrong) {
    budget.step();  // a budget that is used up stays so
    generator->failure = wrong.what();
  }
  budget.make(generator->values.size() * sizeof(Value));
  generator->depth = nested_depth(deepest(generator->values));
  return Value(GeneratorPtr(std::move(generator)));
}

const Value* Generator::take() {
  if (next < values.size()) return &values[next++];
  if (!failure.empty()) throw TemplateFault(std::exchange(failure, {}));
  return nullptr;
}

Value make_dict(Budget& budget, std::vector<std::pair<Value, Value>> entries) {
  budget.make(entries.size() * 2 * sizeof(Value));
  auto dict = std::make_shared<Dict>();
  std::unordered_map<std::string_view, size_t> seen;
  int depth = 0;
  for (auto& [key, value] : entries) {
    require_hashable(key);
    depth = std::max({depth, depth_of(key), depth_of(value)});
    size_t place = dict->entries.size();
    if (const std::string* text = key.text()) {
      place = seen.emplace(*text, place).first->second;
    } else {
      for (size_t i = 0; i < dict->entries.size(); ++i) {
        if (equal(budget, dict->entries[i].first, key)) place = i;
      }
    }
    if (place < dict->entries.size()) {
      dict->entries[place].second = value;
    } else {
      dict->entries.emplace_back(key, value);
    }
  }
  dict->depth = nested_depth(depth);
  index_texts(*dict);
  return Value(DictPtr(std::move(dict)));
}

Value make_method(const Value& self, std::string_view name) {
  Callable method{.kind = CallableKind::kMethod, .name = std::string(name), .self = self};
  method.depth = nested_depth(depth_of(self));
  return Value(std::make_shared<const Callable>(std::move(method)));
}

Value from_json(Budget& budget, const nlohmann::ordered_json& json) {
  budget.step();
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned:
      if (json.get<uint64_t>() > INT64_MAX) fault("{} is above 64 bits", json.dump());
      return Value::integer(json.get<int64_t>());
    case nlohmann::json::value_t::number_float:
      return Value::real(json.get<double>());
    case nlohmann::json::value_t::string:
      return make_text(budget, json.get<std::string>());
    case nlohmann::json::value_t::array: {
      std::vector<Value> values;
      values.reserve(json.size());
      for (const nlohmann::ordered_json& item : json) values.push_back(from_json(budget, item));
      return make_list(budget, std::move(values));
    }
    case nlohmann::json::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      for (const auto& [key, value] : json.items()) {
        entries.emplace_back(make_text(budget, key), from_json(budget, value));
      }
      return make_dict(budget, std::move(entries));
    }
    default:
      return Value::none();
  }
}

std::string_view kind_words(const Value& value) {
  constexpr std::string_view kWords[] = {
      "an undefined value", "none",       "a boolean", "an integer",
      "a number",           "a string",   "a list",    "a mapping",
      "a generator",        "a function", "a loop",    "a namespace"};
  static_assert(std::size(kWords) == std::variant_size_v<Value::Data>);
  if (const Items* items = value.items()) {
    if (items->kind == ItemsKind::kTuple) return "a tuple";
    if (items->kind == ItemsKind::kRange) return "a range";
    if (items->kind != ItemsKind::kList) return "a view of a mapping";
  }
  return kWords[value.data().index()];
}

int depth_of(const Value& value) {
  if (const Items* items = value.items()) return items->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  if (const GeneratorPtr* generator = value.as<GeneratorPtr>()) return (*generator)->depth;
  if (const CallablePtr* callable = value.as<CallablePtr>()) return (*callable)->depth;
  if (const LoopPtr* loop = value.as<LoopPtr>()) return (*loop)->depth();
  return 0;
}

int nested_depth(int inner) {
  if (inner >= kMaxDepth) fault("values are nested deeper than {}", kMaxDepth);
  return inner + 1;
}

bool truth(const Value& value) { return std::visit(Truth(), value.data()); }

void fail_undefined(const Value& value) {
  const Undefined* undefined = value.as<Undefined>();
  if (undefined == nullptr || undefined->why == nullptr) fault("the value is undefined");
  fault("{}", *undefined->why);
}

int64_t length_of(Budget& budget, const Value& value) {
  if (value.is<Undefined>()) return 0;
  if (const std::string* text = value.text()) {
    budget.step(static_cast<int64_t>(text->size() / 64));
    return count_characters(*text);
  }
  if (const Items* items = value.items()) return static_cast<int64_t>(items->values.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  if (const LoopPtr* loop = value.as<LoopPtr>()) return (*loop)->length();
  if (value.is<GeneratorPtr>()) fault("a generator has no length: write '| list | length'");
  fault("{} has no length", kind_words(value));
}

bool is_iterable(const Value& value) {
  return value.is<Undefined>() || value.is<TextPtr>() || value.is<ItemsPtr>() ||
         value.is<DictPtr>() || value.is<GeneratorPtr>() || value.is<LoopPtr>();
}

std::vector<Value> iterate(Budget& budget, const Value& value) {
  if (value.is<Undefined>()) return {};
  if (const std::string* text = value.text()) return characters_of(budget, *text);
  if (const Items* items = value.items()) {
    budget.make(items->values.size() * sizeof(Value));
    return items->values;
  }
  if (const Dict* dict = value.dict()) {
    budget.make(dict->entries.size() * sizeof(Value));
    std::vector<Value> keys;
    for (const auto& entry : dict->entries) keys.push_back(entry.first);
    return keys;
  }
  if (const GeneratorPtr* generator = value.as<GeneratorPtr>()) {
    std::vector<Value> rest;
    while (const Value* item = (*generator)->take()) rest.push_back(*item);
    budget.make(rest.size() * sizeof(Value));
    return rest;
  }
  fault("{} cannot be looped over: it needs a list, a mapping or a string", kind_words(value));
}

}  // namespace tessera::jinja
