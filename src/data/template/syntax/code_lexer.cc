#include "data/template/syntax/code_lexer.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/text/parse_real.h"
#include "base/text/text.h"

namespace tessera::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Digits with single underscores between them, from `at` on; 0 where there is none.
size_t digits_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size()) {
    const bool joint =
        text[end] == '_' && end > at && end + 1 < text.size() && is_digit(text[end + 1]);
    if (!is_digit(text[end]) && !joint) break;
    ++end;
  }
  return end - at;
}

// The length of "1.5", "1e5", "2.5E-3"; 0 for what is no such number.
size_t real_length(std::string_view text) {
  size_t end = digits_at(text, 0);
  bool is_real = false;
  if (end < text.size() && text[end] == '.' && digits_at(text, end + 1) > 0) {
    end += 1 + digits_at(text, end + 1);
    is_real = true;
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    size_t exponent = end + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    if (digits_at(text, exponent) > 0) return exponent + digits_at(text, exponent);
  }
  return is_real ? end : 0;
}

std::string without_joints(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '_');
  return plain;
}

Token read_real(SourceCursor& cursor, size_t length, const Place& place) {
  Token token{.kind = TokenKind::kReal, .line = cursor.line()};
  token.text = std::string(cursor.take(length));
  const auto real = whole_real(without_joints(token.text));
  if (!real)
    place.fail(token.line, fmt::format("'{}' is outside the range of numbers", token.text));
  token.real = *real;
  return token;
}

Token read_integer(SourceCursor& cursor, const Place& place) {
  Token token{.kind = TokenKind::kInteger, .line = cursor.line()};
  const std::string start = lower_case(cursor.rest().substr(0, 2));
  if (start == "0x" || start == "0o" || start == "0b") {
    place.fail(token.line, "numbers are decimal here: write them so");
  }
  size_t length = digits_at(cursor.rest(), 0);
  if (cursor.peek() == '0') {  // 0, 00: what follows is another number, as in Jinja
    length = 1;
    while (length < cursor.rest().size() && cursor.rest()[length] == '0') ++length;
  }
  token.text = std::string(cursor.take(length));
  const std::string plain = without_joints(token.text);
  const auto [end, error] =
      std::from_chars(plain.data(), plain.data() + plain.size(), token.integer);
  if (error != std::errc()) {
    place.fail(token.line, fmt::format("{} is above 64 bits", token.text));
  }
  return token;
}

std::optional<uint32_t> hex_code(std::string_view digits) {
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return code;
}

// \xhh, \uhhhh, \Uhhhhhhhh: `text` begins behind the letter; gives the digits' count.
size_t append_hex(std::string& out, std::string_view text, char letter, int line,
                  const Place& place) {
  const size_t count = letter == 'x' ? 2 : (letter == 'u' ? 4 : 8);
  const auto code = text.size() < count ? std::nullopt : hex_code(text.substr(0, count));
  const bool valid = code && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff);
  if (!valid) {
    place.fail(line,
               fmt::format("a string has '\\{}' without {} digits of a character", letter, count));
  }
  append_code(out, *code);
  return count;
}

size_t append_octal(std::string& out, std::string_view text) {
  uint32_t code = 0;
  size_t count = 0;
  while (count < 3 && count < text.size() && text[count] >= '0' && text[count] <= '7') {
    code = code * 8 + static_cast<uint32_t>(text[count++] - '0');
  }
  append_code(out, code);
  return count;
}

// What Python makes of the escapes of a string.
std::string unescape(std::string_view text, int line, const Place& place) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char letter = text[++i];  // there is one: a backslash is never the last
    if (const size_t known = kLetters.find(letter); known != kLetters.npos) {
      out += kMeant[known];
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      i += append_hex(out, text.substr(i + 1), letter, line, place);
    } else if (letter >= '0' && letter <= '7') {
      i += append_octal(out, text.substr(i)) - 1;
    } else if (letter == 'N' || static_cast<unsigned char>(letter) >= 0x80) {
      place.fail(line, "a string has a backslash before a name or a letter: write it twice");
    } else if (letter != '\n') {
      out += '\\';
      out += letter;
    }
  }
  return out;
}

Token read_string(SourceCursor& cursor, const Place& place) {
  Token token{.kind = TokenKind::kString, .line = cursor.line()};
  const char quote = cursor.peek();
  const std::string_view rest = cursor.rest();
  size_t end = 1;
  while (end < rest.size() && rest[end] != quote) end += rest[end] == '\\' ? 2 : 1;
  if (end >= rest.size()) {
    place.fail(token.line, fmt::format("a string begins with {} and does not end", quote));
  }
  token.text = unescape(rest.substr(1, end - 1), token.line, place);
  cursor.take(end + 1);
  return token;
}

}  // namespace

Token read_code_token(SourceCursor& cursor, const Place& place) {
  const char c = cursor.peek();
  if (is_digit(c)) {
    const size_t real = cursor.before() == '.' ? 0 : real_length(cursor.rest());
    return real > 0 ? read_real(cursor, real, place) : read_integer(cursor, place);
  }
  if (c == '\'' || c == '"') return read_string(cursor, place);
  Token token{.kind = TokenKind::kName, .line = cursor.line()};
  if (is_name_start(c)) {
    size_t end = 1;
    const std::string_view rest = cursor.rest();
    while (end < rest.size() && (is_name_start(rest[end]) || is_digit(rest[end]))) ++end;
    token.text = std::string(cursor.take(end));
    return token;
  }
  token.kind = TokenKind::kOperator;
  for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
    if (cursor.sees(two)) {
      token.text = std::string(cursor.take(2));
      return token;
    }
  }
  if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
    place.fail(token.line,
               fmt::format("the character {} begins nothing that a tag may hold",
                           in_quotes(cursor.rest().substr(0, character_bytes(cursor.rest())))));
  }
  token.text = std::string(cursor.take(1));
  return token;
}

}  // namespace tessera::jinja
