#include "data/template/syntax/lexer.h"

#include "base/error.h"
#include "base/text/printable.h"
#include "data/template/syntax/code_lexer.h"
#include "data/template/syntax/source_cursor.h"

namespace tessera::jinja {
namespace {

// One newline at the end does not count; \r\n and \r are newlines.
std::string with_plain_newlines(std::string_view source) {
  std::string plain;
  plain.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      plain += source[i];
    } else {
      plain += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

void require_utf8(std::string_view source, const Place& place) {
  int line = 1;
  while (!source.empty()) {
    const Character character = first_character(source);
    if (!character.valid) place.fail(line, "the template is not UTF-8: convert it");
    if (character.code == '\n') ++line;
    source.remove_prefix(character.bytes);
  }
}

bool is_blank(std::string_view text) { return strip(text).empty(); }

class Lexer {
 public:
  Lexer(std::string_view source, const Place& place) : cursor_(source), place_(place) {}

  std::vector<Token> run() {
    while (!cursor_.at_end()) {
      const std::string_view text = cursor_.rest().substr(0, next_tag());
      const int line = cursor_.line();
      cursor_.take(text.size());
      if (cursor_.at_end()) {
        add(TokenKind::kData, std::string(text), line);
        break;
      }
      read_tag(text, line);
    }
    add(TokenKind::kEnd, "", cursor_.line());
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] size_t next_tag() const {
    const std::string_view rest = cursor_.rest();
    for (size_t at = rest.find('{'); at != rest.npos; at = rest.find('{', at + 1)) {
      if (at + 1 < rest.size() &&
          std::string_view("{%#").find(rest[at + 1]) != std::string_view::npos) {
        return at;
      }
    }
    return rest.size();
  }

  void add(TokenKind kind, std::string text, int line) {
    if (kind == TokenKind::kData && text.empty()) return;
    tokens_.push_back({.kind = kind, .text = std::move(text), .line = line});
  }

  // The text before a tag, which the cursor stands on, without what the tag removes.
  [[nodiscard]] std::string_view before_tag(std::string_view text, char sign,
                                            bool is_variable) const {
    if (sign == '-') return strip(text, Side::kRight);
    if (sign == '+' || is_variable) return text;
    const size_t line_start = text.rfind('\n') + 1;  // npos + 1 is 0
    const bool whole_line = line_start > 0 || line_starting_;
    return whole_line && is_blank(text.substr(line_start)) ? text.substr(0, line_start) : text;
  }

  void read_tag(std::string_view text, int text_line) {
    const int line = cursor_.line();
    const char kind = cursor_.take(2)[1];
    const char sign = cursor_.peek() == '-' || cursor_.peek() == '+' ? cursor_.take(1)[0] : '\0';
    add(TokenKind::kData, std::string(before_tag(text, sign, kind == '{')), text_line);
    if (kind == '#') {
      skip_comment(line);
    } else if (kind == '{') {
      add(TokenKind::kVariableBegin, "", line);
      read_code(TokenKind::kVariableEnd, line);
    } else if (!read_raw(line)) {
      add(TokenKind::kBlockBegin, "", line);
      read_code(TokenKind::kBlockEnd, line);
    }
    line_starting_ = cursor_.before() == '\n';
  }

  // The end of a block or a comment, with the white space that it removes.
  bool take_block_end(std::string_view end) {
    if (cursor_.sees("+" + std::string(end))) {
      cursor_.take(1 + end.size());
      return true;
    }
    if (cursor_.sees("-" + std::string(end))) {
      cursor_.take(1 + end.size());
      cursor_.take_space();
      return true;
    }
    if (!cursor_.take_if(end)) return false;
    cursor_.take_if("\n");
    return true;
  }

  bool take_variable_end() {
    if (cursor_.take_if("}}")) return true;
    if (!cursor_.take_if("-}}")) return false;
    cursor_.take_space();
    return true;
  }

  void skip_comment(int line) {
    while (!cursor_.at_end()) {
      if (take_block_end("#}")) return;
      cursor_.take(1);
    }
    place_.fail(line, "a comment begins with {# and has no #}");
  }

  // {% raw %} ... {% endraw %}: text as it is. False where this is no raw block.
  bool read_raw(int line) {
    SourceCursor ahead = cursor_;
    ahead.take_space();
    if (!ahead.take_if("raw")) return false;
    ahead.take_space();
    if (ahead.take_if("-%}")) {
      ahead.take_space();
    } else if (!ahead.take_if("%}")) {
      return false;
    }
    cursor_ = ahead;
    line_starting_ = cursor_.before() == '\n';
    return read_raw_text(line);
  }

  bool read_raw_text(int line) {
    const int text_line = cursor_.line();
    const std::string_view text = cursor_.rest();
    for (size_t size = text.find("{%"); size != text.npos; size = text.find("{%", size + 1)) {
      cursor_.take(size - (text.size() - cursor_.rest().size()));  // each part is counted once
      const SourceCursor at_tag = cursor_;
      cursor_.take(2);
      const char sign = cursor_.peek() == '-' || cursor_.peek() == '+' ? cursor_.take(1)[0] : '\0';
      cursor_.take_space();
      const bool named = cursor_.take_if("endraw");
      cursor_.take_space();
      if (named && take_block_end("%}")) {
        add(TokenKind::kData, std::string(before_tag(text.substr(0, size), sign, false)),
            text_line);
        return true;
      }
      cursor_ = at_tag;
    }
    place_.fail(line, "{% raw %} has no {% endraw %}");
  }

  // Brackets are balanced first: }} may end two mappings.
  void read_code(TokenKind end, int line) {
    std::string open;
    while (true) {
      cursor_.take_space();
      if (cursor_.at_end()) break;
      const int end_line = cursor_.line();
      const bool ended = open.empty() && (end == TokenKind::kVariableEnd ? take_variable_end()
                                                                         : take_block_end("%}"));
      if (ended) return add(end, "", end_line);
      tokens_.push_back(read_code_token(cursor_, place_));
      balance(open);
    }
    place_.fail(line, end == TokenKind::kVariableEnd ? "{{ has no }}" : "{% has no %}");
  }

  void balance(std::string& open) const {
    const Token& token = tokens_.back();
    if (token.kind != TokenKind::kOperator || token.text.size() != 1) return;
    constexpr std::string_view kOpening = "([{", kClosing = ")]}";
    const char c = token.text[0];
    if (const size_t at = kOpening.find(c); at != kOpening.npos) {
      open += kClosing[at];
    } else if (kClosing.find(c) != kClosing.npos) {
      if (open.empty()) place_.fail(token.line, fmt::format("'{}' closes nothing", c));
      if (open.back() != c) {
        place_.fail(token.line, fmt::format("'{}' where '{}' is expected", c, open.back()));
      }
      open.pop_back();
    }
  }

  SourceCursor cursor_;
  const Place& place_;
  std::vector<Token> tokens_;
  bool line_starting_ = true;  // what was read last ends with a newline
};

}  // namespace

void Place::fail(int line, std::string_view message) const {
  throw ConfigError(fmt::format("{}:{}: {}", name_, line, message));
}

std::vector<Token> tokenize(std::string_view source, const Place& place) {
  require_utf8(source, place);
  const std::string plain = with_plain_newlines(source);
  return Lexer(plain, place).run();
}

}  // namespace tessera::jinja
