#include "spec/toml_depth.h"

#include "base/error.h"

namespace tessera {
namespace {

constexpr int kMostDots = 64;

}  // namespace

void refuse_deep_keys(std::string_view text, const std::string& file_name) {
  int line = 1, column = 0, dots = 0;
  char quote = 0;  // of the string we are in
  bool comment = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    ++column;
    if (c == '\n') {
      ++line;
      column = dots = 0;
      quote = 0;
      comment = false;
    } else if (comment) {
      continue;
    } else if (quote != 0) {
      if (c == '\\' && quote == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        ++i;
        ++column;
      } else if (c == quote) {
        quote = 0;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      comment = true;
    } else if (c == '=' || c == ',' || c == '{') {
      dots = 0;  // another key begins, or a value, whose numbers have dots too
    } else if (c == '.') {
      ++dots;
      require_config(dots <= kMostDots, "{}:{}:{}: a key of more than {} parts; none has that many",
                     file_name, line, column, kMostDots);
    }
  }
}

}  // namespace tessera
