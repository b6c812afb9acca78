#include "data/tokenizer/model/model_lists.h"

#include <algorithm>

#include "data/tokenizer/model/vocabulary.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr int kMostDepth = 64;

// Every step says whether the text goes on as expected; after a no, nothing else is asked.
class ListReader {
 public:
  explicit ListReader(std::string_view text) : text_(text) {}

  bool run(SplitModel& split) {
    if (!members([&](std::string_view key) {
          if (key != "model") return skip_value();
          return !has_model_ && model(split.lists);
        })) {
      return false;
    }
    skip_blanks();
    if (at_ != text_.size() || vocab_.end == 0 || merges_.end == 0) return false;
    const bool vocab_first = vocab_.begin < merges_.begin;
    const Range& first = vocab_first ? vocab_ : merges_;
    const Range& second = vocab_first ? merges_ : vocab_;
    split.rest.append(text_.substr(0, first.begin)).append(vocab_first ? "{}" : "[]");
    split.rest.append(text_.substr(first.end, second.begin - first.end));
    split.rest.append(vocab_first ? "[]" : "{}").append(text_.substr(second.end));
    return true;
  }

 private:
  struct Range {
    size_t begin = 0;
    size_t end = 0;  // 0: not there yet
  };

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  // {"key": value, ...}, where `value` reads what follows the colon.
  template <typename Value>
  bool members(const Value& value) {
    if (!take('{')) return false;
    if (take('}')) return true;
    std::string key;
    do {
      if (!text_value(key) || !take(':') || !value(key)) return false;
    } while (take(','));
    return take('}');
  }

  bool model(ModelLists& lists) {
    has_model_ = true;
    return members([&](std::string_view key) {
      skip_blanks();
      const Range range{at_, 0};
      if (key == "vocab") return vocab(lists) && end_of(range, vocab_);
      if (key == "merges") return merges(lists) && end_of(range, merges_);
      return skip_value();
    });
  }
  // Keys that come twice are for the other parser.
  bool end_of(Range range, Range& known) const {
    if (known.end != 0) return false;
    known = {range.begin, at_};
    return true;
  }

  bool vocab(ModelLists& lists) {
    return members([&](std::string_view token) {
      int64_t id = 0;
      if (!whole(id)) return false;
      lists.vocab.emplace_back(token, static_cast<int32_t>(id));
      return true;
    });
  }

  bool merges(ModelLists& lists) {
    if (!take('[')) return false;
    if (take(']')) return true;
    std::string text;
    do {
      auto& [left, right] = lists.merges.emplace_back();
      if (take('[')) {
        if (!text_value(left) || !take(',') || !text_value(right) || !take(']')) return false;
        continue;
      }
      if (!text_value(text) || text.starts_with("#version")) return false;
      const size_t blank = text.find(' ');
      if (blank == text.npos || text.find(' ', blank + 1) != text.npos) return false;
      left.assign(text, 0, blank);
      right.assign(text, blank + 1);
    } while (take(','));
    return take(']');
  }

  bool whole(int64_t& number) {
    skip_blanks();
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      number = 10 * number + (peek() - '0');
      if (number >= kMostTokens) return false;
    }
    if (at_ == begin || (text_[begin] == '0' && at_ > begin + 1)) return false;
    return peek() != '.' && peek() != 'e' && peek() != 'E';
  }

  bool text_value(std::string& text) {
    if (!take('"')) return false;
    text.clear();
    while (true) {
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') {
        if (static_cast<unsigned char>(text_[at_++]) < 0x20) return false;
      }
      text.append(text_, begin, at_ - begin);
      if (at_ == text_.size()) return false;
      if (text_[at_++] == '"') return valid_prefix(text) == text.size();
      if (!escape(text)) return false;
    }
  }

  bool escape(std::string& text) {
    constexpr std::string_view kWritten = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    const char c = peek();
    ++at_;
    if (c != 'u') {
      const size_t found = c == '\0' ? kWritten.npos : kWritten.find(c);
      if (found == kWritten.npos) return false;
      text += kMeant[found];
      return true;
    }
    uint32_t code = 0;
    if (!four_digits(code)) return false;
    if (code >= 0xD800 && code < 0xE000) {
      uint32_t low = 0;
      if (code >= 0xDC00 || text_.substr(at_, 2) != "\\u") return false;
      at_ += 2;
      if (!four_digits(low) || low < 0xDC00 || low >= 0xE000) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(code, text);
    return true;
  }
  bool four_digits(uint32_t& code) {
    if (text_.size() - at_ < 4) return false;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[at_++];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return false;
      code = code << 4 | static_cast<uint32_t>(digit);
    }
    return true;
  }

  // To its end, whatever it is: the rest of the file is parsed again.
  bool skip_value() {
    int depth = 0;
    do {
      skip_blanks();
      const char c = peek();
      if (c == '"') {
        if (!skip_text()) return false;
      } else if (c == '{' || c == '[') {
        if (++depth > kMostDepth) return false;
        ++at_;
      } else if (c == '}' || c == ']') {
        --depth;
        ++at_;
      } else if (c == ',' || c == ':') {
        ++at_;
      } else if (!skip_word()) {
        return false;
      }
    } while (depth > 0);
    return depth == 0;
  }
  bool skip_text() {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        return true;
      }
    }
    return false;
  }
  // A number, true, false, null.
  bool skip_word() {
    const size_t end = std::min(text_.find_first_of(" \n\r\t,:]}[{\"", at_), text_.size());
    const bool any = end > at_;
    at_ = end;
    return any;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool has_model_ = false;
  Range vocab_, merges_;
};

// No token and no id twice: which of them counts is for those who keep the order of their tree.
bool all_differ(const std::vector<std::pair<std::string, int32_t>>& vocab) {
  int32_t highest = -1;
  for (const auto& [token, id] : vocab) highest = std::max(highest, id);
  std::vector<bool> taken(static_cast<size_t>(highest) + 1);
  StringTable tokens;
  tokens.reserve(vocab.size(), 8 * vocab.size());
  for (const auto& [token, id] : vocab) {
    if (taken[static_cast<size_t>(id)]) return false;
    taken[static_cast<size_t>(id)] = true;
    tokens.insert(token, id);
  }
  return tokens.size() == vocab.size();
}

}  // namespace

std::optional<SplitModel> split_model(std::string_view json) {
  std::optional<SplitModel> split(std::in_place);
  if (!ListReader(json).run(*split) || !all_differ(split->lists.vocab)) return std::nullopt;
  return split;
}

}  // namespace tessera
