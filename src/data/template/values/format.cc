#include "data/template/values/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "data/template/values/compare.h"
#include "data/template/values/text_ops.h"
#include "data/template/values/write.h"

namespace tessera::jinja {
namespace {

constexpr int64_t kMaxWidth = 10'000;
constexpr int kMaxDigits = 100;

struct Conversion {
  std::string name;  // of %(name)s
  bool left = false, zeros = false, plus = false, space = false;
  int64_t width = 0;
  int digits = -1;  // -1: not given
  char letter = 0;
};

int64_t read_number(std::string_view& rest) {
  int64_t number = 0;
  while (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
    number = std::min<int64_t>(number * 10 + (rest.front() - '0'), kMaxWidth + 1);
    rest.remove_prefix(1);
  }
  return number;
}

// Reads what follows a '%'.
Conversion read_conversion(std::string_view& rest) {
  Conversion one;
  if (rest.starts_with('(')) {
    const size_t end = rest.find(')');
    if (end == rest.npos) fault("a format has '%(' without ')'");
    one.name = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  }
  for (; !rest.empty(); rest.remove_prefix(1)) {
    if (rest.front() == '-') {
      one.left = true;
    } else if (rest.front() == '0') {
      one.zeros = true;
    } else if (rest.front() == '+') {
      one.plus = true;
    } else if (rest.front() == ' ') {
      one.space = true;
    } else {
      break;
    }
  }
  one.width = read_number(rest);
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    one.digits = static_cast<int>(read_number(rest));
  }
  if (one.width > kMaxWidth) fault("a format has a width above {}", kMaxWidth);
  if (rest.empty()) fault("a format ends with '%': write '%%' for a percent sign");
  one.letter = rest.front();
  rest.remove_prefix(1);
  return one;
}

std::string with_sign(const Conversion& one, std::string digits) {
  if (digits.starts_with('-')) return digits;
  if (one.plus) return "+" + digits;
  return one.space ? " " + digits : digits;
}

std::string integer_digits(const Conversion& one, const Value& value) {
  std::optional<int64_t> integer = as_integer(value);
  if (const double* real = value.as<double>(); real != nullptr && one.letter != 'x') {
    if (std::abs(*real) < 9e18) integer = static_cast<int64_t>(*real);
  }
  if (!integer) fault("%{} formats integers, not {}", one.letter, kind_words(value));
  const uint64_t magnitude =
      *integer < 0 ? 0 - static_cast<uint64_t>(*integer) : static_cast<uint64_t>(*integer);
  std::string digits = one.letter == 'x'   ? fmt::format("{:x}", magnitude)
                       : one.letter == 'X' ? fmt::format("{:X}", magnitude)
                       : one.letter == 'o' ? fmt::format("{:o}", magnitude)
                                           : fmt::format("{}", magnitude);
  if (one.digits > kMaxDigits) fault("a format has more than {} digits", kMaxDigits);
  const auto wanted = static_cast<size_t>(std::max(one.digits, 0));
  if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
  return with_sign(one, (*integer < 0 ? "-" : "") + digits);
}

std::string real_digits(const Conversion& one, const Value& value) {
  const auto real = as_real(value);
  if (!real) fault("%f formats numbers, not {}", kind_words(value));
  if (one.digits > kMaxDigits) fault("a format has more than {} digits", kMaxDigits);
  return with_sign(one, fmt::format("{:.{}f}", *real, one.digits < 0 ? 6 : one.digits));
}

std::string converted(Budget& budget, const Conversion& one, const Value& value) {
  const bool is_number = std::string_view("dixXof").find(one.letter) != std::string_view::npos;
  std::string text;
  if (one.letter == 's' || one.letter == 'r') {
    text = one.letter == 's' ? text_of(budget, value) : repr_of(budget, value);
    if (one.digits >= 0) text = text.substr(0, byte_of(text, one.digits));
  } else if (one.letter == 'f') {
    text = real_digits(one, value);
  } else if (is_number) {
    text = integer_digits(one, value);
  } else {
    fault("the format %{} is not supported: use %s, %r, %d, %f, %x or %o", one.letter);
  }
  const int64_t missing = one.width - count_characters(text);
  if (missing <= 0) return text;
  const auto count = static_cast<size_t>(missing);
  if (one.left) return text + std::string(count, ' ');
  if (!one.zeros || !is_number) return std::string(count, ' ') + text;
  const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
  return text.insert(sign ? 1 : 0, count, '0');
}

// Hands out the values of a format one by one.
class FormatValues {
 public:
  explicit FormatValues(const Value& values) : values_(values) {
    const Items* items = values.items();
    if (items != nullptr && items->kind == ItemsKind::kTuple) tuple_ = items;
  }
  const Value& next() {
    const size_t count = tuple_ == nullptr ? 1 : tuple_->values.size();
    if (used_ == count) fault("a format wants more than its {} values", count);
    return tuple_ == nullptr ? (++used_, values_) : tuple_->values[used_++];
  }
  const Value& named(const std::string& name) {
    const Dict* dict = values_.dict();
    if (values_.is<Undefined>()) fail_undefined(values_);
    if (dict == nullptr) fault("the format %({})s wants a mapping", name);
    const Value* value = dict->find(name);
    if (value == nullptr) fault("the format %({})s: there is no such key", name);
    return *value;
  }
  void require_used() const {
    const bool left =
        tuple_ == nullptr ? used_ == 0 && !has_items() : used_ < tuple_->values.size();
    if (left) fault("a format does not use all of its values");
  }

 private:
  // Python lets what has keys or items pass unused.
  [[nodiscard]] bool has_items() const {
    return values_.is<ItemsPtr>() || values_.is<DictPtr>() || values_.is<Undefined>();
  }

  const Value& values_;
  const Items* tuple_ = nullptr;
  size_t used_ = 0;
};

const Value& field_value(std::string_view field, const Arguments& arguments, size_t& next) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), index);
  const bool numbered =
      !field.empty() && error == std::errc() && end == field.data() + field.size();
  if (field.empty() || numbered) {
    if (field.empty()) index = next++;
    if (index >= arguments.values.size()) fault("format() has no value number {}", index);
    return arguments.values[index];
  }
  const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                  [&](const auto& named) { return named.first == field; });
  if (found != arguments.named.end()) return found->second;
  fault("format() does not know '{{{}}}': it takes {{}}, {{0}} and {{name}}", field);
}

}  // namespace

std::string percent_format(Budget& budget, std::string_view pattern, const Value& values) {
  FormatValues given(values);
  std::string out;
  while (true) {
    const size_t at = pattern.find('%');
    out += pattern.substr(0, at);
    if (at == pattern.npos) break;
    pattern.remove_prefix(at + 1);
    const Conversion one = read_conversion(pattern);
    if (one.letter == '%') {
      out += '%';
      continue;
    }
    out += converted(budget, one, one.name.empty() ? given.next() : given.named(one.name));
    budget.make(static_cast<size_t>(one.width));
  }
  given.require_used();
  return out;
}

std::string brace_format(Budget& budget, std::string_view pattern, const Arguments& arguments) {
  std::string out;
  size_t next = 0;
  while (!pattern.empty()) {
    const char c = pattern.front();
    if (pattern.starts_with("{{") || pattern.starts_with("}}")) {
      out += c;
      pattern.remove_prefix(2);
    } else if (c == '{') {
      const size_t end = pattern.find('}');
      if (end == pattern.npos) fault("format() has '{{' without '}}'");
      const Value& value = field_value(pattern.substr(1, end - 1), arguments, next);
      out += text_of(budget, value);
      pattern.remove_prefix(end + 1);
    } else if (c == '}') {
      fault("format() has '}}' without '{{'");
    } else {
      out += c;
      pattern.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace tessera::jinja
