#include "base/text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text/noun.h"
#include "base/text/printable.h"

namespace tessera {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

size_t code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

std::string pad(const std::string& cell, size_t width, Align align) {
  const std::string fill(width - std::min(width, code_points(cell)), ' ');
  return align == Align::kLeft ? cell + fill : fill + cell;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

int64_t edit_distance(std::string_view a, std::string_view b) {
  const std::string x = lower_case(a), y = lower_case(b);
  // Rows i-2, i-1 and i of the table of distances between the first i and j letters.
  std::vector<int64_t> before(y.size() + 1), above(y.size() + 1), row(y.size() + 1);
  for (size_t j = 0; j <= y.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= x.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= y.size(); ++j) {
      const int64_t substituted = above[j - 1] + (x[i - 1] == y[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[y.size()];
}

std::string nearest_name(std::string_view name, std::span<const std::string_view> known) {
  constexpr size_t kShortestBeginning = 3;
  constexpr size_t kLongestName = 256;  // bounds the quadratic work on hostile input
  if (name.size() > kLongestName) return {};
  std::string best, beginning;
  int64_t best_distance = 0;
  for (const std::string_view candidate : known) {
    const int64_t distance = edit_distance(name, candidate);
    const auto longer = static_cast<int64_t>(std::max(name.size(), candidate.size()));
    const bool close = distance <= std::max<int64_t>(1, longer / 3) && distance < longer;
    if (close && (best.empty() || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
    const bool begins =
        name.size() >= kShortestBeginning && candidate.starts_with(lower_case(name));
    if (begins && beginning.empty()) beginning = candidate;
  }
  return best.empty() ? beginning : best;
}

std::string suggestion(std::string_view name, std::span<const std::string_view> known,
                       std::string_view what) {
  const std::string nearest = nearest_name(name, known);
  if (!nearest.empty()) return fmt::format("did you mean '{}'?", nearest);
  return fmt::format("known {}: {}", what, fmt::join(known, ", "));
}

std::string human_bytes(int64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes > -1024 && bytes < 1024) return fmt::format("{} B", bytes);
  double size = static_cast<double>(bytes) / 1024.0;
  size_t unit = 0;
  // 1023.95 would print as 1024.0.
  while (std::abs(size) >= 1023.95 && unit + 1 < kUnits.size()) {
    size /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string percent_text(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0);
}

std::string with_thousands(int64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool after_digit = i > 0 && digits[i - 1] != '-';
    if (after_digit && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string count_of(int64_t count, std::string_view what) {
  return with_noun(with_thousands(count), what);
}

std::string in_quotes(std::string_view text, size_t limit) {
  std::string result = "\"";
  size_t count = 0;
  for (; !text.empty(); ++count) {
    const Character character = first_character(text);
    const std::string_view bytes = text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
    if (count >= limit) continue;
    if (bytes == "\"" || bytes == "\\") {
      result.append("\\").append(bytes);
    } else if (character.code < 0x80 &&
               (bytes == "\n" || bytes == "\t" || !is_printable(character.code))) {
      result += fmt::format("\\x{:02x}", character.code);
    } else {
      result += printable(bytes);
    }
  }
  result += '"';
  if (count > limit) {
    result += fmt::format("… ({} characters)", with_thousands(static_cast<int64_t>(count)));
  }
  return result;
}

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  TESSERA_CHECK(!columns_.empty(), "a table needs columns");
}

void TextTable::add_row(std::vector<std::string> cells) {
  TESSERA_CHECK(cells.size() == columns_.size(), "{} cells for {} columns", cells.size(),
                columns_.size());
  for (std::string& cell : cells) cell = printable(cell);  // its width is what will be seen
  rows_.push_back(std::move(cells));
}

void TextTable::add_rule() { rows_.emplace_back(); }

std::string TextTable::str() const {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns_) lines[0].push_back(column.header);
  lines.emplace_back();
  lines.insert(lines.end(), rows_.begin(), rows_.end());

  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& cells : lines) {
    for (size_t c = 0; c < cells.size(); ++c) {
      widths[c] = std::max(widths[c], code_points(cells[c]));
    }
  }
  std::string text;
  for (const auto& cells : lines) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line += "  ";
      line +=
          cells.empty() ? std::string(widths[c], '-') : pad(cells[c], widths[c], columns_[c].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace tessera
