// A template as tokens: text as it is, and what stands between {{ }} and {% %}. White space around
// tags is gone already, as transformers has it: a newline behind a block and blanks before one on
// its line (trim_blocks, lstrip_blocks), and what - asks for. One newline at the end of the
// template too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::jinja {

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kReal,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text = {};  // of a string without its quotes and escapes
  int line = 1;
  int64_t integer = 0;
  double real = 0;
};

// Where a mistake is: "chat.jinja:12: ...". Throws ConfigError.
class Place {
 public:
  explicit Place(std::string name) : name_(std::move(name)) {}
  [[noreturn]] void fail(int line, std::string_view message) const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// The last token is kEnd. Throws ConfigError with the line.
std::vector<Token> tokenize(std::string_view source, const Place& place);

}  // namespace tessera::jinja
