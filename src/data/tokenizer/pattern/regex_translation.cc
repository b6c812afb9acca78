#include "data/tokenizer/pattern/regex_translation.h"

#include <cctype>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::string_view kSpaceList =
    R"(\t-\r\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// All other characters, for \S inside a class.
constexpr std::string_view kNotSpaceList =
    R"(\x00-\x08\x0E-\x1F\x21-\x84\x86-\x9F\xA1-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";

class Translation {
 public:
  Translation(std::string_view pattern, const NewerCharacters& newer)
      : pattern_(pattern), newer_(newer) {}

  std::string run() {
    while (at_ < pattern_.size()) one();
    require_config(!in_class_, "pattern {}: a class '[' is not closed", in_quotes(pattern_));
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw ConfigError(
        fmt::format("pattern {}: {} (byte {}) is not supported", in_quotes(pattern_), what, at_));
  }
  [[nodiscard]] char peek(size_t ahead) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void take(size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }
  void put(std::string_view text, size_t bytes) {
    out_ += text;
    at_ += bytes;
  }

  void one() {
    const char c = pattern_[at_];
    if (c == '\\') {
      escape();
    } else if (in_class_) {
      in_class(c);
    } else if (c == '[') {
      in_class_ = true;
      take(peek(1) == '^' ? 2 : 1);
      if (peek(0) == ']') refuse("']' at the beginning of a class");
    } else if (c == '(' && peek(1) == '?') {
      group();
    } else if (c == '(' && peek(1) == '*') {
      refuse("a verb '(*'");
    } else if (c == '{') {
      interval();
    } else {
      take(1);
    }
  }

  void in_class(char c) {
    if (c == '&' && peek(1) == '&') refuse("'&&' in a class");
    if (c == '[') {
      // One that is not negated adds its characters to those around it.
      if (peek(1) == '^' || peek(1) == ':' || peek(1) == ']') refuse("a class in a class");
      ++inner_classes_;
      return put("", 1);
    }
    if (c == ']' && inner_classes_ > 0) {
      --inner_classes_;
      return put("", 1);
    }
    if (c == ']') in_class_ = false;
    take(1);
  }

  // Options, and what Ruby writes differently.
  void group() {
    const char kind = peek(2);
    if (kind == ':' || kind == '=' || kind == '!' || kind == '>') return take(3);
    if (kind == '<' && (peek(3) == '=' || peek(3) == '!')) return take(4);
    if (kind == '<') return take(3);  // a name
    size_t end = at_ + 2;
    while (end < pattern_.size() && (pattern_[end] == 'i' || pattern_[end] == '-')) ++end;
    const char after = end < pattern_.size() ? pattern_[end] : '\0';
    // "(?i)" holds to the end of its group, alternatives included, in Ruby only.
    if (end > at_ + 2 && (after == ':' || (after == ')' && at_ == 0))) {
      return take(end + 1 - at_);
    }
    refuse("a group '" + std::string(pattern_.substr(at_, 4)) + "'");
  }

  void interval() {
    size_t end = at_ + 1;
    while (end < pattern_.size() &&
           (std::isdigit(static_cast<unsigned char>(pattern_[end])) != 0 || pattern_[end] == ',')) {
      ++end;
    }
    const bool is_one = end < pattern_.size() && pattern_[end] == '}' && end > at_ + 1;
    if (!is_one) return put("\\{", 1);
    if (end + 1 < pattern_.size() && pattern_[end + 1] == '+') refuse("'+' after an interval");
    if (peek(1) == ',') {
      out_ += "{0";
      ++at_;
    }
    take(end + 1 - at_);
  }

  void list(std::string_view inside, bool negated) {
    if (in_class_) {
      out_ += inside;
    } else {
      out_ += fmt::format("[{}{}]", negated ? "^" : "", inside);
    }
    at_ += 2;
  }

  [[nodiscard]] std::string word_list() const {
    return fmt::format("{}{}{}", kWordClass, in_class_ ? "" : kWordAlone, newer_.words);
  }

  void escape() {
    const char c = peek(1);
    switch (c) {
      case '\0':
        refuse("a backslash at the end");
      case 's':
        return list(kSpaceList, false);
      case 'S':
        return in_class_ ? list(kNotSpaceList, false) : list(kSpaceList, true);
      case 'w':
        return list(word_list(), false);
      case 'W':
        if (in_class_) refuse("\\W in a class");
        return list(word_list(), true);
      case 'd':
        return in_class_ ? put("\\p{Nd}" + newer_.decimals, 2)
                         : list("\\p{Nd}" + newer_.decimals, false);
      case 'D':
        return in_class_ ? put("\\P{Nd}", 2) : list("\\p{Nd}" + newer_.decimals, true);
      case 'p':
      case 'P':
        return property(c == 'P');
      case 'b':
      case 'B':
        return in_class_ ? put("\\x08", 2) : border(c == 'B');
      case 'v':
        return put("\\x0B", 2);
      case 'u':
        return unicode();
      case 'A':
      case 'z':
      case 'Z':
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
      case 'x':
        return take(2);
      default:
        break;
    }
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) refuse(std::string("\\") + c);
    take(2);
  }

  void border(bool negated) {
    const std::string word = word_list();
    const std::string_view after = negated ? "=" : "!";
    const std::string_view before = negated ? "!" : "=";
    put(fmt::format("(?:(?<=[{0}])(?{1}[{0}])|(?<![{0}])(?{2}[{0}]))", word, after, before), 2);
  }

  void unicode() {
    std::string digits;
    for (size_t i = 2; i < 6; ++i) {
      if (std::isxdigit(static_cast<unsigned char>(peek(i))) == 0)
        refuse("\\u without four digits");
      digits += peek(i);
    }
    put(fmt::format("\\x{{{}}}", digits), 6);
  }

  [[nodiscard]] const std::string& newer_in(std::string_view property) const {
    if (property == "L") return newer_.letters;
    if (property == "N") return newer_.numbers;
    return property == "Nd" ? newer_.decimals : none_;
  }

  void property(bool negated) {
    const size_t close = pattern_.find('}', at_);
    if (peek(2) != '{' || close == pattern_.npos) refuse("\\p without a name in braces");
    std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const std::string& more = newer_in(name);
    const size_t bytes = close + 1 - at_;
    const std::string plain = fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', name);
    if (more.empty() || (negated && in_class_)) return put(plain, bytes);
    if (in_class_) return put(plain + more, bytes);
    put(fmt::format("[{}\\p{{{}}}{}]", negated ? "^" : "", name, more), bytes);
  }

  std::string_view pattern_;
  const NewerCharacters& newer_;
  const std::string none_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
  int inner_classes_ = 0;
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern, const NewerCharacters& newer) {
  return Translation(pattern, newer).run();
}

}  // namespace tessera
