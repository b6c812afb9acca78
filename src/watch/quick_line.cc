#include "watch/quick_line.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace tessera {
namespace {

constexpr int kDeepest = 8;                            // of what is passed over
constexpr int64_t kMostSteps = 1'000'000'000'000'000;  // as parse_metrics_line() has it

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads from the front of a text. Every function says whether it found what it is for.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool take(char c) {
    pass_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] char peek() {
    pass_space();
    return at_ == end_ ? '\0' : *at_;
  }
  bool at_end() {
    pass_space();
    return at_ == end_;
  }

  // Printable ASCII without an escape.
  bool text(std::string_view& found) {
    if (!take('"')) return false;
    const char* const begin = at_;
    while (at_ != end_ && *at_ != '"') {
      const auto c = static_cast<unsigned char>(*at_);
      if (c < 0x20 || c >= 0x7f || c == '\\') return false;
      ++at_;
    }
    found = {begin, static_cast<size_t>(at_ - begin)};
    return at_ != end_ && *at_++ == '"';
  }

  // As JSON writes one. `whole`: without a fraction and an exponent.
  bool number(double& value, bool& whole) {
    pass_space();
    const char* const begin = at_;
    if (at_ != end_ && *at_ == '-') ++at_;
    const char* const digits = at_;
    if (!pass_digits() || (*digits == '0' && at_ - digits > 1)) return false;
    whole = true;
    if (at_ != end_ && *at_ == '.') {
      whole = false;
      ++at_;
      if (!pass_digits()) return false;
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      whole = false;
      ++at_;
      if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
      if (!pass_digits()) return false;
    }
    const auto [stop, error] = std::from_chars(begin, at_, value);
    return error == std::errc() && stop == at_;
  }

  bool pass_value(int depth) {
    const char c = peek();
    std::string_view ignored_text;
    double ignored = 0;
    bool ignored_whole = false;
    if (c == '"') return text(ignored_text);
    if (c == '-' || is_digit(c)) return number(ignored, ignored_whole);
    if (depth > 0 && c == '[') return pass_list(depth);
    return pass_word("true") || pass_word("false") || pass_word("null");
  }

 private:
  void pass_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r' || *at_ == '\n')) ++at_;
  }
  bool pass_digits() {
    const char* const begin = at_;
    while (at_ != end_ && is_digit(*at_)) ++at_;
    return at_ != begin;
  }
  bool pass_word(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  bool pass_list(int depth) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!pass_value(depth - 1)) return false;
    } while (take(','));
    return take(']');
  }

  const char* at_;
  const char* end_;
};

class LineReader {
 public:
  explicit LineReader(std::string_view text) : scan_(text) { line_.values.reserve(16); }

  std::optional<MetricsLine> read() {
    if (!read_object("") || !scan_.at_end() || !has_step_) return std::nullopt;
    return std::move(line_);
  }

 private:
  bool read_object(std::string_view prefix) {
    if (!scan_.take('{')) return false;
    do {
      std::string_view name;
      if (!scan_.text(name) || !scan_.take(':') || !read_member(prefix, name)) return false;
    } while (scan_.take(','));
    return scan_.take('}');
  }

  bool read_member(std::string_view prefix, std::string_view name) {
    const char c = scan_.peek();
    if (c == '{') return prefix.empty() && read_object(name);
    if (c == '"') return read_text(prefix, name);
    if (c != '-' && !is_digit(c)) return scan_.pass_value(kDeepest);
    double value = 0;
    bool whole = false;
    if (!scan_.number(value, whole)) return false;
    if (prefix.empty() && name == "step") {
      if (!whole || value < 0 || value > static_cast<double>(kMostSteps)) return false;
      line_.step = static_cast<int64_t>(value);
      has_step_ = true;
    }
    return add(prefix, name, value);
  }

  bool read_text(std::string_view prefix, std::string_view name) {
    std::string_view text;
    if (!scan_.text(text)) return false;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (text == "NaN") return add(prefix, name, std::numeric_limits<double>::quiet_NaN());
    if (text == "Infinity") return add(prefix, name, kInfinity);
    if (text == "-Infinity") return add(prefix, name, -kInfinity);
    if (prefix.empty() && name == "event") {
      if (!line_.event.empty()) return false;
      line_.event = text;
    }
    return true;
  }

  bool add(std::string_view prefix, std::string_view name, double value) {
    std::string full(prefix);
    if (!prefix.empty()) full += '.';
    full += name;
    if (line_.find(full) != nullptr) return false;  // twice
    line_.values.emplace_back(std::move(full), value);
    return true;
  }

  Scanner scan_;
  MetricsLine line_;
  bool has_step_ = false;
};

}  // namespace

std::optional<MetricsLine> quick_metrics_line(std::string_view text) {
  return LineReader(text).read();
}

}  // namespace tessera
