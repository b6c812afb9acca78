#include "data/tokenizer/pattern/regex_class.h"

#include <cctype>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "data/tokenizer/pattern/class_text.h"
#include "data/tokenizer/unicode/character_property.h"

namespace tessera {
namespace {

// PCRE2's \s has U+180E too.
constexpr std::string_view kSpaceList =
    R"(\t-\r\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// A table of Latin-1 has them where \w stands alone.
constexpr std::string_view kWordAlone = R"(\xB2\xB3\xB9\xBC-\xBE)";
constexpr std::string_view kAny = "(?s:.)";
constexpr int kDeepest = 20;  // classes in classes

char at_or_end(std::string_view pattern, size_t at) {
  return at < pattern.size() ? pattern[at] : '\0';
}

std::string words(bool alone) { return class_text("Word") + std::string(alone ? kWordAlone : ""); }

NamedSet property_at(std::string_view pattern, size_t at, bool alone) {
  const size_t close = pattern.find('}', at);
  if (at_or_end(pattern, at + 2) != '{' || close == pattern.npos) {
    refuse_in_pattern(pattern, at, "\\p without a name in braces");
  }
  std::string_view name = pattern.substr(at + 3, close - at - 3);
  NamedSet set = {.negated = pattern[at + 1] == 'P', .bytes = close + 1 - at};
  if (name.starts_with('^')) {
    set.negated = !set.negated;
    name.remove_prefix(1);
  }
  set.inside = lower_case(name) == "word" ? words(alone) : class_text(name);
  return set;
}

class ClassReader {
 public:
  ClassReader(std::string_view pattern, size_t at) : pattern_(pattern), begin_(at), at_(at) {}

  TranslatedClass read(int depth) {
    if (depth > kDeepest) refuse("so many classes in classes");
    ++at_;
    const bool negated = peek(0) == '^';
    if (negated) ++at_;
    std::vector<std::string> all_of;  // what '&&' stands between
    Choice choice;
    if (peek(0) == ']') {  // the first one ends nothing
      choice.inside = "\\]";
      ++at_;
    }
    while (peek(0) != ']') {
      require_config(at_ < pattern_.size(), "pattern {}: a class '[' is not closed",
                     in_quotes(pattern_));
      if (peek(0) == '&' && peek(1) == '&') {
        all_of.push_back(one_of(choice));
        choice = {};
        at_ += 2;
      } else {
        read_item(choice, depth);
      }
    }
    ++at_;
    TranslatedClass out = {.bytes = at_ - begin_};
    if (all_of.empty() && choice.others.empty()) {
      if (!negated) out.inside = choice.inside;
      out.text = fmt::format("[{}{}]", negated ? "^" : "", choice.inside);
      return out;
    }
    std::string one = one_of(choice);
    for (const std::string& part : all_of) one = fmt::format("(?={}){}", part, one);
    out.text = negated ? fmt::format("(?:(?!{}){})", one, kAny) : fmt::format("(?:{})", one);
    return out;
  }

 private:
  // Characters that are listed, or one of several expressions.
  struct Choice {
    std::string inside;
    std::vector<std::string> others;
  };

  [[noreturn]] void refuse(std::string_view what) const { refuse_in_pattern(pattern_, at_, what); }
  [[nodiscard]] char peek(size_t ahead) const { return at_or_end(pattern_, at_ + ahead); }

  std::string one_of(const Choice& choice) const {
    if (choice.inside.empty() && choice.others.empty()) refuse("an empty side of '&&'");
    std::string text = choice.inside.empty() ? "" : "[" + choice.inside + "]";
    for (const std::string& other : choice.others) text += (text.empty() ? "" : "|") + other;
    return "(?:" + text + ")";
  }

  void read_item(Choice& choice, int depth) {
    if (const auto set = named_set(pattern_, at_, /*alone=*/false)) {
      at_ += set->bytes;
      return add_set(*set, choice);
    }
    const char c = peek(0);
    if (c == '[' && peek(1) == ':') return add_set(posix_set(), choice);
    if (c == '[') {
      ClassReader inner(pattern_, at_);
      const TranslatedClass one = inner.read(depth + 1);
      at_ += one.bytes;
      if (one.inside) {
        choice.inside += *one.inside;
      } else {
        choice.others.push_back(one.text);
      }
      return hyphen(choice);
    }
    if (c == '\\') {
      // A backspace here, a border of words elsewhere.
      const EscapedCharacter one =
          peek(1) == 'b' ? EscapedCharacter{"\\x08", 2} : escaped_character(pattern_, at_);
      choice.inside += one.text;
      at_ += one.bytes;
      return;
    }
    choice.inside += c;
    ++at_;
  }

  void add_set(const NamedSet& set, Choice& choice) {
    if (set.negated) {
      choice.others.push_back("[^" + set.inside + "]");
    } else {
      choice.inside += set.inside;
    }
    hyphen(choice);
  }

  // Behind a set, '-' begins no range.
  void hyphen(Choice& choice) {
    if (peek(0) != '-' || at_ >= pattern_.size()) return;
    choice.inside += "\\-";
    ++at_;
  }

  // "[:alpha:]"
  NamedSet posix_set() {
    const size_t close = pattern_.find(":]", at_);
    if (close == pattern_.npos) refuse("'[:' without ':]'");
    std::string_view name = pattern_.substr(at_ + 2, close - at_ - 2);
    NamedSet set = {.negated = name.starts_with('^')};
    if (set.negated) name.remove_prefix(1);
    if (!character_property(name)) refuse("'[:" + std::string(name) + ":]'");
    // Here symbols are punctuation, in \p{Punct} they are not.
    set.inside = class_text(name) + (name == "punct" ? class_text("Symbol") : "");
    at_ = close + 2;
    return set;
  }

  std::string_view pattern_;
  size_t begin_;
  size_t at_;
};

}  // namespace

void refuse_in_pattern(std::string_view pattern, size_t at, std::string_view what) {
  throw ConfigError(
      fmt::format("pattern {}: {} (byte {}) is not supported", in_quotes(pattern), what, at));
}

std::optional<NamedSet> named_set(std::string_view pattern, size_t at, bool alone) {
  if (at_or_end(pattern, at) != '\\') return std::nullopt;
  const char c = at_or_end(pattern, at + 1);
  const bool negated = std::isupper(static_cast<unsigned char>(c)) != 0;
  switch (c) {
    case 's':
    case 'S':
      return NamedSet{std::string(kSpaceList), negated, 2};
    case 'd':
    case 'D':
      return NamedSet{class_text("Nd"), negated, 2};
    case 'h':
    case 'H':
      return NamedSet{"0-9A-Fa-f", negated, 2};
    case 'w':
    case 'W':
      return NamedSet{words(alone), negated, 2};
    case 'p':
    case 'P':
      return property_at(pattern, at, alone);
    default:
      return std::nullopt;
  }
}

EscapedCharacter escaped_character(std::string_view pattern, size_t at) {
  const char c = at_or_end(pattern, at + 1);
  if (at + 1 >= pattern.size()) refuse_in_pattern(pattern, at, "a backslash at the end");
  if (c == 'v') return {"\\x0B", 2};
  if (c == 'u') {
    const std::string_view digits = pattern.substr(at + 2, 4);
    for (const char digit : digits) {
      if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) {
        refuse_in_pattern(pattern, at, "\\u without four digits");
      }
    }
    if (digits.size() < 4) refuse_in_pattern(pattern, at, "\\u without four digits");
    return {fmt::format("\\x{{{}}}", digits), 6};
  }
  const bool is_known = std::string_view("nrtfaex").find(c) != std::string_view::npos;
  if (std::isalnum(static_cast<unsigned char>(c)) != 0 && !is_known) {
    refuse_in_pattern(pattern, at, std::string("\\") + c);
  }
  return {std::string(pattern.substr(at, 2)), 2};
}

TranslatedClass translate_class(std::string_view pattern, size_t at) {
  return ClassReader(pattern, at).read(1);
}

}  // namespace tessera
