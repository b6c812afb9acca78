#include "serve/grammar/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/text/text.h"
#include "data/tokenizer/unicode/unicode.h"
#include "serve/grammar/characters.h"

namespace tessera::serve::grammar {
namespace {

constexpr int kMostRepeats = 1000;
constexpr int kMostGroups = 64;  // inside each other
constexpr std::string_view kSyntax = "^$\\.*+?()[]{}|/-";

const CodeSet kDigits = {{'0', '9'}};
const CodeSet kWords = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodeSet kBlanks = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                         {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                         {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodeSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

// Builds the automaton while it reads.
class PatternReader {
 public:
  PatternReader(std::string_view text, std::string_view place, Nfa& nfa, Budget& budget)
      : text_(text), place_(place), nfa_(nfa), budget_(budget) {}

  uint32_t read(uint32_t from) {
    const uint32_t last = read_choice(from, 0);
    if (at_ < text_.size()) fail("')' closes no group");
    return last;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw ConfigError(
        fmt::format("{}: pattern {}: {} (byte {})", place_, in_quotes(text_), what, at_));
  }
  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  [[nodiscard]] bool sees(std::string_view what) const {
    return text_.substr(at_).starts_with(what);
  }
  bool take(std::string_view what) {
    if (!sees(what)) return false;
    at_ += what.size();
    return true;
  }
  uint32_t take_code() {
    const CodePoint point = code_point_at(text_, at_);
    at_ += point.bytes;
    return point.code;
  }

  uint32_t read_choice(uint32_t from, int depth) {
    if (depth > kMostGroups) fail(fmt::format("groups are nested deeper than {}", kMostGroups));
    const uint32_t last = nfa_.add_state();
    do {
      const uint32_t first = nfa_.add_state();
      nfa_.add_empty(from, first);
      nfa_.add_empty(read_sequence(first, depth), last);
    } while (take("|"));
    return last;
  }

  uint32_t read_sequence(uint32_t from, int depth) {
    while (!done() && !sees("|") && !sees(")")) {
      budget_.step();
      if (take("^") || take("$")) {
        const At where = text_[at_ - 1] == '^' ? At::kStart : At::kEnd;
        const uint32_t next = nfa_.add_state();
        nfa_.add_empty(from, next, where);
        from = next;
        if (!done() && std::string_view("*+?{").find(text_[at_]) != std::string_view::npos) {
          fail("a repeated '^' or '$' is not supported");
        }
        continue;
      }
      from = read_repeated(from, depth);
    }
    return from;
  }

  struct Repeats {
    int64_t min = 1, max = 1;  // max < 0: no limit
  };

  // An operand, then how often: it is read again for each time that it may come.
  uint32_t read_repeated(uint32_t from, int depth) {
    const size_t begin = at_;
    uint32_t first = nfa_.add_state();
    uint32_t last = read_operand(first, depth);
    const std::optional<Repeats> repeats = read_repeats();
    if (!repeats) {
      nfa_.add_empty(from, first);
      return last;
    }
    const size_t end = at_;
    const uint32_t after = nfa_.add_state();
    const int64_t copies = repeats->max < 0 ? std::max<int64_t>(repeats->min, 1) : repeats->max;
    for (int64_t i = 0; i < copies; ++i) {
      if (i > 0) {
        at_ = begin;
        first = nfa_.add_state();
        last = read_operand(first, depth);
      }
      if (i >= repeats->min) nfa_.add_empty(from, after);
      nfa_.add_empty(from, first);
      from = last;
    }
    at_ = end;
    if (repeats->max < 0) nfa_.add_empty(last, first);
    nfa_.add_empty(from, after);
    return after;
  }

  std::optional<Repeats> read_repeats() {
    std::optional<Repeats> repeats;
    if (take("*")) {
      repeats = Repeats{0, -1};
    } else if (take("+")) {
      repeats = Repeats{1, -1};
    } else if (take("?")) {
      repeats = Repeats{0, 1};
    } else if (take("{")) {
      repeats = read_counts();
    }
    if (!repeats) return repeats;
    take("?");  // which match is found first changes nothing
    if (sees("*") || sees("+") || sees("?") || sees("{")) fail("nothing to repeat");
    return repeats;
  }

  int64_t read_count() {
    const size_t begin = at_;
    int64_t value = 0;
    for (; !done() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + (text_[at_] - '0');
      if (value > kMostRepeats) fail(fmt::format("more than {} repetitions", kMostRepeats));
    }
    if (at_ == begin) fail("expected a number of repetitions");
    return value;
  }
  Repeats read_counts() {
    Repeats repeats;
    repeats.min = read_count();
    repeats.max = repeats.min;
    if (take(",")) repeats.max = sees("}") ? -1 : read_count();
    if (!take("}")) fail("expected '}'");
    if (repeats.max >= 0 && repeats.max < repeats.min) fail("repetitions {n,m} with m below n");
    return repeats;
  }

  uint32_t read_operand(uint32_t from, int depth) {
    if (take("(")) return read_group(from, depth);
    const uint32_t to = nfa_.add_state();
    add_character(nfa_, from, read_set(), to);
    return to;
  }

  uint32_t read_group(uint32_t from, int depth) {
    if (take("?")) {
      if (sees("=") || sees("!") || sees("<=") || sees("<!")) {
        fail("lookahead and lookbehind are not supported");
      }
      if (take("<")) {
        while (!done() && !sees(">")) ++at_;
        if (!take(">")) fail("expected '>'");
      } else if (!take(":")) {
        fail("groups with flags are not supported");
      }
    }
    const uint32_t last = read_choice(from, depth + 1);
    if (!take(")")) fail("a group is not closed");
    return last;
  }

  CodeSet read_set() {
    if (take(".")) return inverse_of(kLineEnds);
    if (take("[")) return read_class();
    if (take("\\")) return read_escape(false);
    for (const std::string_view sign : {"*", "+", "?", "{"}) {
      if (sees(sign)) fail("nothing to repeat");
    }
    if (sees("]") || sees("}")) fail("write '\\" + std::string(text_.substr(at_, 1)) + "'");
    const uint32_t code = take_code();
    return {{code, code}};
  }

  CodeSet read_class() {
    const bool inverted = take("^");
    CodeSet set;
    while (!take("]")) {
      if (done()) fail("a class is not closed");
      const CodeSet first = read_class_part();
      const bool one = first.size() == 1 && first[0].lo == first[0].hi;
      if (sees("-") && !sees("-]")) {
        ++at_;
        if (done()) fail("a class is not closed");
        const CodeSet last = read_class_part();
        if (!one || last.size() != 1 || last[0].lo != last[0].hi || last[0].lo < first[0].lo) {
          fail("a range of a class needs two characters, the lower one first");
        }
        set.push_back({first[0].lo, last[0].lo});
      } else {
        set.insert(set.end(), first.begin(), first.end());
      }
    }
    set = normal_form(std::move(set));
    return inverted ? inverse_of(set) : set;
  }
  CodeSet read_class_part() {
    if (take("\\")) return read_escape(true);
    const uint32_t code = take_code();
    return {{code, code}};
  }

  uint32_t read_hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = done() ? '\0' : text_[at_];
      const size_t digit = std::string_view("0123456789abcdef").find(lower_case({&c, 1}));
      if (c == '\0' || digit == std::string_view::npos) {
        fail(fmt::format("expected {} hexadecimal digits", digits));
      }
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  CodeSet read_escape(bool in_class) {
    if (done()) fail("'\\' at the end");
    const char letter = text_[at_++];
    switch (letter) {
      case 'd':
        return kDigits;
      case 'D':
        return inverse_of(kDigits);
      case 'w':
        return kWords;
      case 'W':
        return inverse_of(kWords);
      case 's':
        return kBlanks;
      case 'S':
        return inverse_of(kBlanks);
      default:
        break;
    }
    const uint32_t code = read_escaped_code(letter, in_class);
    return {{code, code}};
  }

  uint32_t read_escaped_code(char letter, bool in_class) {
    constexpr std::string_view kLetters = "nrtfv";
    constexpr std::string_view kCodes = "\n\r\t\f\v";
    if (const size_t at = kLetters.find(letter); at != std::string_view::npos) {
      return static_cast<uint32_t>(kCodes[at]);
    }
    if (letter == 'x') return read_hex(2);
    if (letter == 'u') return read_unicode();
    if (letter == 'b' && in_class) return '\b';
    if (letter == '0' && (done() || text_[at_] < '0' || text_[at_] > '9')) return 0;
    if (kSyntax.find(letter) != std::string_view::npos) return static_cast<uint32_t>(letter);
    if (letter >= '0' && letter <= '9') fail("references to groups are not supported");
    if (letter == 'b' || letter == 'B') fail("borders of words (\\b, \\B) are not supported");
    if (letter == 'p' || letter == 'P') fail("\\p is not supported: write a class with ranges");
    if (lower_case({&letter, 1}) != std::string(1, letter) || (letter >= 'a' && letter <= 'z')) {
      fail(fmt::format("'\\{}' is not supported", letter));
    }
    --at_;
    return take_code();
  }

  uint32_t read_unicode() {
    if (take("{")) {
      uint32_t code = 0;
      const size_t begin = at_;
      while (!done() && !sees("}")) {
        code = code * 16 + read_hex(1);
        if (code > kLastCode) fail("no such character");
      }
      if (at_ == begin || !take("}")) fail("expected \\u{...}");
      return code;
    }
    const uint32_t high = read_hex(4);
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take("\\u")) fail("half of a surrogate pair");
    const uint32_t low = read_hex(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    return 0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF);
  }

  std::string_view text_;
  std::string_view place_;
  Nfa& nfa_;
  Budget& budget_;
  size_t at_ = 0;
};

}  // namespace

Dfa string_of_pattern(std::string_view pattern, std::string_view place, int64_t min, int64_t max,
                      Budget& budget) {
  Nfa nfa(budget);
  const CodeSet any = any_code();
  // Before the match, and behind it: anything.
  const uint32_t before = nfa.add_state();
  add_character(nfa, before, any, before);
  uint32_t first = nfa.add_state();
  nfa.add_empty(first, before);
  uint32_t last = nfa.add_state();
  add_character(nfa, last, any, last);
  nfa.add_empty(PatternReader(pattern, place, nfa, budget).read(before), last);
  if (min > 0 || max >= 0) return nfa.of_length(first, last, min, max).deterministic(first, last);
  return nfa.deterministic(first, last);
}

}  // namespace tessera::serve::grammar
