#include "studio/line_place.h"

#include <fmt/format.h>

#include <charconv>

#include "base/hash.h"

namespace tessera {
namespace {

constexpr size_t kKeyDigits = 8;

// Takes a whole number off the front. Nothing: there is none, or it is too large.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

}  // namespace

// A file without a line has no mark yet: its beginning is a number alone.
std::string LinePlace::text() const {
  return key.empty() ? fmt::format("{}", line) : fmt::format("{}.{}.{}", line, offset, key);
}

std::optional<LinePlace> parse_line_place(std::string_view text) {
  LinePlace place;
  const auto line = take_number(text);
  if (!line.has_value()) return std::nullopt;
  place.line = *line;
  place.offset = *line == 0 ? 0 : -1;
  if (text.empty()) return place;
  if (!text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  const auto offset = take_number(text);
  if (!offset.has_value() || text.size() != kKeyDigits + 1 || text.front() != '.') {
    return std::nullopt;
  }
  place.offset = *offset;
  place.key = std::string(text.substr(1));
  return place;
}

std::optional<std::string> file_key(std::string_view start) {
  const size_t end = start.find('\n');
  // A first line that is longer than what is looked at is told apart by its start.
  if (end == std::string_view::npos && start.size() < static_cast<size_t>(kKeyBytes)) {
    return std::nullopt;
  }
  return hex(hash_name(start.substr(0, end))).substr(0, kKeyDigits);
}

}  // namespace tessera
