// Python's json.dumps.
#include <algorithm>
#include <cmath>

#include "data/template/values/compare.h"
#include "data/template/values/text_ops.h"
#include "data/template/values/write.h"

namespace tessera::jinja {
namespace {

void append_unit(std::string& out, uint32_t unit) { out += fmt::format("\\u{:04x}", unit); }

std::string json_string(std::string_view text, bool ensure_ascii) {
  std::string out = "\"";
  for (; !text.empty(); text.remove_prefix(character_bytes(text))) {
    const uint32_t code = first_code(text);
    constexpr std::string_view kPlain = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const size_t known = code < 0x80 ? kPlain.find(static_cast<char>(code)) : kPlain.npos;
    if (known != kPlain.npos) {
      out += '\\';
      out += kLetters[known];
    } else if (code < 0x20 || (ensure_ascii && code >= 0x7f && code < 0x10000)) {
      append_unit(out, code);
    } else if (ensure_ascii && code >= 0x10000) {
      append_unit(out, 0xd800U + ((code - 0x10000U) >> 10U));
      append_unit(out, 0xdc00U + ((code - 0x10000U) & 0x3ffU));
    } else {
      out += text.substr(0, character_bytes(text));
    }
  }
  return out += '"';
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return real_text(value);
}

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style) {}
  std::string take() { return std::move(out_); }

  void write(const Value& value, int level) {
    budget_.step();
    if (const Items* items = value.items()) {
      if (items->kind == ItemsKind::kList || items->kind == ItemsKind::kTuple) {
        return write_list(*items, level);
      }
    }
    if (const Dict* dict = value.dict()) return write_dict(*dict, level);
    append(scalar(value));
  }

 private:
  std::string scalar(const Value& value) {
    if (const std::string* text = value.text()) return json_string(*text, style_.ensure_ascii);
    if (value.is<None>()) return "null";
    if (const bool* truth = value.as<bool>()) return *truth ? "true" : "false";
    if (const int64_t* integer = value.as<int64_t>()) return std::to_string(*integer);
    if (const double* real = value.as<double>()) return json_number(*real);
    fault("{} has no JSON: give tojson lists, mappings, strings and numbers", kind_words(value));
  }

  // JSON has only strings for keys.
  std::string key_text(const Value& key) {
    if (key.is<TextPtr>()) return scalar(key);
    if (key.is<ItemsPtr>()) fault("a tuple is no key of JSON: use a string");
    return "\"" + scalar(key) + "\"";
  }

  void append(std::string_view text) {
    budget_.make(text.size());
    out_ += text;
  }

  void line(int level) {
    if (!style_.indent) return;
    append("\n");
    for (int i = 0; i < level; ++i) append(*style_.indent);
  }

  void write_list(const Items& items, int level) {
    if (items.values.empty()) return append("[]");
    append("[");
    for (size_t i = 0; i < items.values.size(); ++i) {
      if (i > 0) append(style_.between);
      line(level + 1);
      write(items.values[i], level + 1);
    }
    line(level);
    append("]");
  }

  void write_dict(const Dict& dict, int level) {
    if (dict.entries.empty()) return append("{}");
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : dict.entries) order.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
        return less(budget_, a->first, b->first);
      });
    }
    append("{");
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) append(style_.between);
      line(level + 1);
      append(key_text(order[i]->first));
      append(style_.after_key);
      write(order[i]->second, level + 1);
    }
    line(level);
    append("}");
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string json_of(Budget& budget, const Value& value, const JsonStyle& style) {
  JsonWriter writer(budget, style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace tessera::jinja
