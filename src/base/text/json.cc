#include "base/text/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int kMaxDepth = 64;

[[noreturn]] void fail_at(std::string_view text, size_t offset, const std::string& file_name,
                          std::string_view reason) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0: the first line
  throw ConfigError(fmt::format("{}:{}:{}: {} (byte {})", file_name, line,
                                before.size() - line_start + 1, reason, before.size()));
}

// Before parsing, so that deep nesting costs neither memory nor stack.
void check_depth(std::string_view text, const std::string& file_name) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '{' || c == '[')) {
      if (++depth > kMaxDepth) {
        fail_at(text, i, file_name, fmt::format("JSON is nested deeper than {}", kMaxDepth));
      }
    } else if (!in_string && (c == '}' || c == ']')) {
      --depth;
    }
  }
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." without
// what we say ourselves.
std::string_view reason_of(std::string_view what) {
  constexpr std::string_view kColumn = "column ";
  const size_t column = what.find(kColumn);
  const size_t start =
      what.find(column == what.npos ? "] " : ": ", column == what.npos ? 0 : column);
  return start == what.npos ? what : what.substr(start + 2);
}

template <typename Json>
Json parse_as(std::string_view text, const std::string& file_name, size_t most_bytes) {
  require_config(text.size() <= most_bytes, "{}: {} bytes of JSON, more than the limit of {}",
                 file_name, text.size(), most_bytes);
  check_depth(text, file_name);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail_at(text, error.byte == 0 ? 0 : error.byte - 1, file_name, reason_of(error.what()));
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(fmt::format("{}: {}", file_name, reason_of(error.what())));
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& file_name, size_t most_bytes) {
  return parse_as<nlohmann::json>(text, file_name, most_bytes);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& file_name) {
  return parse_as<nlohmann::ordered_json>(text, file_name, kMostJsonBytes);
}

}  // namespace tessera
