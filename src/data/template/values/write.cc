#include "data/template/values/write.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "data/template/values/text_ops.h"

namespace tessera::jinja {
namespace {

void append_escaped(std::string& out, uint32_t code) {
  if (code < 0x100) {
    out += fmt::format("\\x{:02x}", code);
  } else if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += fmt::format("\\U{:08x}", code);
  }
}

std::string python_string(std::string_view text) {
  const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (; !text.empty(); text.remove_prefix(character_bytes(text))) {
    const uint32_t code = first_code(text);
    if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (code == '\\' || code == static_cast<unsigned char>(quote)) {
      out += '\\';
      out += static_cast<char>(code);
    } else if (!is_printable_in_python(code)) {
      append_escaped(out, code);
    } else {
      out += text.substr(0, character_bytes(text));
    }
  }
  return out += quote;
}

// Writes into one string, so that deep values are not copied level by level.
class ReprWriter {
 public:
  explicit ReprWriter(Budget& budget) : budget_(budget) {}
  std::string take() { return std::move(out_); }

  void write(const Value& value) {
    budget_.step();
    if (const std::string* text = value.text()) {
      append(python_string(*text));
    } else if (const Items* items = value.items()) {
      write_items(*items);
    } else if (const Dict* dict = value.dict()) {
      write_dict(*dict);
    } else if (value.is<Undefined>()) {
      append("Undefined");
    } else {
      append(text_of(budget_, value));
    }
  }

 private:
  void append(std::string_view text) {
    budget_.make(text.size());
    out_ += text;
  }

  void write_items(const Items& items) {
    const bool tuple = items.kind == ItemsKind::kTuple;
    if (!tuple && items.kind != ItemsKind::kList) {
      fault("a range or a view of a mapping has no text: write '| list' behind it");
    }
    append(tuple ? "(" : "[");
    for (size_t i = 0; i < items.values.size(); ++i) {
      if (i > 0) append(", ");
      write(items.values[i]);
    }
    if (tuple && items.values.size() == 1) append(",");
    append(tuple ? ")" : "]");
  }

  void write_dict(const Dict& dict) {
    append("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
      if (!first) append(", ");
      first = false;
      write(key);
      append(": ");
      write(value);
    }
    append("}");
  }

  Budget& budget_;
  std::string out_;
};

}  // namespace

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> buffer = {};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  const std::string_view shortest(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  const size_t e = shortest.find('e');
  const int exponent = std::atoi(shortest.data() + e + 1);
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  const bool negative = shortest.front() == '-';
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string text;
  if (exponent < 0) {
    text = "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else {
    const auto whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
    text = digits.substr(0, whole) + "." + digits.substr(whole);
  }
  return negative ? "-" + text : text;
}

std::string text_of(Budget& budget, const Value& value) {
  if (const std::string* text = value.text()) {
    budget.make(text->size());
    return *text;
  }
  if (value.is<Undefined>()) return "";
  if (value.is<None>()) return "None";
  if (const bool* truth = value.as<bool>()) return *truth ? "True" : "False";
  if (const int64_t* integer = value.as<int64_t>()) return std::to_string(*integer);
  if (const double* real = value.as<double>()) return real_text(*real);
  if (value.is<ItemsPtr>() || value.is<DictPtr>()) return repr_of(budget, value);
  if (value.is<GeneratorPtr>()) fault("a generator has no text: write '| list' behind it");
  if (value.is<CallablePtr>()) fault("a function has no text: call it with ()");
  fault("{} has no text: print one of its attributes", kind_words(value));
}

std::string repr_of(Budget& budget, const Value& value) {
  ReprWriter writer(budget);
  writer.write(value);
  return writer.take();
}

}  // namespace tessera::jinja
