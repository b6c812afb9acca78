#include "data/tokenizer/pattern/regex_translation.h"

#include <cctype>

#include "base/error.h"
#include "data/tokenizer/pattern/regex_class.h"

namespace tessera {
namespace {

class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) one();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const { refuse_in_pattern(pattern_, at_, what); }
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
    } else if (c == '[') {
      const TranslatedClass one = translate_class(pattern_, at_);
      put(one.text, one.bytes);
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

  void escape() {
    if (const auto set = named_set(pattern_, at_, /*alone=*/true)) {
      return put(fmt::format("[{}{}]", set->negated ? "^" : "", set->inside), set->bytes);
    }
    const char c = peek(1);
    if (c == 'b' || c == 'B') return border(c == 'B');
    if (c == 'A' || c == 'z' || c == 'Z') return take(2);
    const EscapedCharacter one = escaped_character(pattern_, at_);
    put(one.text, one.bytes);
  }

  void border(bool negated) {
    const std::string word = named_set("\\w", 0, /*alone=*/true)->inside;
    const std::string_view after = negated ? "=" : "!";
    const std::string_view before = negated ? "!" : "=";
    put(fmt::format("(?:(?<=[{0}])(?{1}[{0}])|(?<![{0}])(?{2}[{0}]))", word, after, before), 2);
  }

  std::string_view pattern_;
  std::string out_;
  size_t at_ = 0;
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern) { return Translation(pattern).run(); }

}  // namespace tessera
