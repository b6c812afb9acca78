#include "base/text/fit_width.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/text/text.h"

namespace tessera {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

size_t length_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

// The byte at which character `index` begins; the end of the text where it has fewer.
size_t byte_of(std::string_view text, size_t index) {
  for (size_t byte = 0; byte < text.size(); ++byte) {
    if (begins_character(text[byte]) && index-- == 0) return byte;
  }
  return text.size();
}

std::string_view characters(std::string_view text, size_t first, size_t count) {
  const size_t begin = byte_of(text, first);
  return text.substr(begin, byte_of(text.substr(begin), count));
}

std::string without_end_spaces(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// A column of a table: where it begins, and its width.
struct Span {
  size_t first = 0, width = 0;
  [[nodiscard]] size_t end() const { return first + width; }
};

constexpr size_t kGap = 2;  // spaces between columns

// The columns that a rule of dashes says; none: it is no rule.
std::vector<Span> spans_of(std::string_view line) {
  std::vector<Span> spans;
  if (line.empty() || line.find_first_not_of("- ") != line.npos) return spans;
  for (size_t at = 0; at < line.size();) {
    const size_t first = line.find('-', at);
    if (first == line.npos) break;
    at = std::min(line.find(' ', first), line.size());
    spans.push_back({first, at - first});
  }
  return spans;
}

// Whether nothing stands between the columns, and something in them.
bool is_row(std::string_view line, const std::vector<Span>& spans) {
  if (line.empty() || length_of(line) > spans.back().end()) return false;
  for (size_t c = 0; c + 1 < spans.size(); ++c) {
    const std::string_view gap =
        characters(line, spans[c].end(), spans[c + 1].first - spans[c].end());
    if (gap.find_first_not_of(' ') != gap.npos) return false;
  }
  return true;
}

class WideTable {
 public:
  // `lines`: the header, the rule and the rows.
  WideTable(std::vector<std::string_view> lines, std::vector<Span> spans, size_t columns)
      : lines_(std::move(lines)), spans_(std::move(spans)), columns_(columns) {}

  [[nodiscard]] std::string str() const {
    if (fits_behind(2) && !first_tells_apart()) return in_blocks(2);
    return fits_behind(1) ? in_blocks(1) : row_by_row();
  }

 private:
  [[nodiscard]] size_t width_of(size_t first, size_t end) const {
    return end == first ? 0 : spans_[end - 1].end() - spans_[first].first;
  }

  // Whether any other column has room beside the first `keys` columns.
  [[nodiscard]] bool fits_behind(size_t keys) const {
    if (keys >= spans_.size()) return false;
    size_t widest = 0;
    for (size_t c = keys; c < spans_.size(); ++c) widest = std::max(widest, spans_[c].width);
    return width_of(0, keys) + kGap + widest <= columns_;
  }

  [[nodiscard]] bool first_tells_apart() const {
    std::set<std::string> seen;
    return std::all_of(lines_.begin() + 2, lines_.end(), [&](std::string_view line) {
      return !spans_of(line).empty() || seen.insert(padded(line, 0)).second;
    });
  }

  // `keys` columns stand in every block, and as many others as have room.
  [[nodiscard]] std::string in_blocks(size_t keys) const {
    std::string text;
    for (size_t first = keys; first < spans_.size();) {
      size_t width = width_of(0, keys), end = first;
      while (end < spans_.size() && width + kGap + spans_[end].width <= columns_) {
        width += kGap + spans_[end++].width;
      }
      if (first > keys) text += "\n";
      for (const std::string_view line : lines_) {
        std::string part = padded(line, 0);
        for (size_t c = 1; c < end; ++c) {
          if (c < keys || c >= first) part += std::string(kGap, ' ') + padded(line, c);
        }
        text += without_end_spaces(part) + "\n";
      }
      first = end;
    }
    return text;
  }

  [[nodiscard]] std::string row_by_row() const {
    std::string text;
    for (size_t r = 2; r < lines_.size(); ++r) {
      if (!spans_of(lines_[r]).empty()) continue;
      for (size_t c = 0; c < spans_.size(); ++c) {
        const std::string name(trim(padded(lines_[0], c)));
        const std::string value(trim(padded(lines_[r], c)));
        if (value.empty()) continue;
        const std::string line = name.empty() ? value : name + ": " + value;
        text += fit_width((c > 0 ? "  " : "") + line, columns_) + "\n";
      }
    }
    return text;
  }

  [[nodiscard]] std::string padded(std::string_view line, size_t c) const {
    std::string cell(characters(line, spans_[c].first, spans_[c].width));
    cell.resize(cell.size() + spans_[c].width - length_of(cell), ' ');
    return cell;
  }

  std::vector<std::string_view> lines_;
  std::vector<Span> spans_;
  size_t columns_;
};

bool is_to_be_copied(std::string_view line) {
  const std::string_view text = trim(line);
  const bool in_columns = text.find("  ") != text.npos;  // a flag and what it does
  return (text.starts_with("--") && !in_columns) || text.starts_with("tessera ") ||
         text.find(": tessera ") != text.npos;
}

// Where further lines begin: below the text behind a label ("mesh      pp=4"), else two spaces in.
size_t indent_of(std::string_view line, size_t columns) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t label = line.find("  ", begin);
  const size_t text = label == line.npos ? line.npos : line.find_first_not_of(' ', label);
  return text != line.npos && text <= columns / 2 ? text : std::min(begin + 2, columns / 2);
}

std::string in_words(std::string_view line, size_t columns) {
  const size_t indent = indent_of(line, columns);
  std::string text;
  bool first = true;
  while (length_of(line) > (first ? columns : columns - indent)) {
    const size_t room = byte_of(line, (first ? columns : columns - indent) + 1);
    const size_t begin = first ? std::min(indent, line.size()) : 0;
    size_t space = line.substr(0, room).rfind(' ');
    // A word that is longer than a line stays whole.
    if (space == line.npos || space < begin) space = line.find(' ', room);
    if (space == line.npos) break;
    text += (first ? "" : std::string(indent, ' ')) +
            without_end_spaces(std::string(line.substr(0, space))) + "\n";
    line.remove_prefix(std::min(line.find_first_not_of(' ', space), line.size()));
    first = false;
  }
  return text + (first ? "" : std::string(indent, ' ')) + std::string(line);
}

// How many lines from `at` on are a table: a header, a rule and rows.
size_t table_lines(const std::vector<std::string_view>& lines, size_t at,
                   const std::vector<Span>& spans) {
  size_t end = at + 2;
  while (end < lines.size() && is_row(lines[end], spans)) ++end;
  return end - at;
}

}  // namespace

std::string fit_width(std::string_view text, size_t columns) {
  if (columns == 0) return std::string(text);
  const std::vector<std::string_view> lines = split(text, '\n');
  std::string fitted;
  for (size_t at = 0; at < lines.size();) {
    const std::string_view line = lines[at];
    const std::vector<Span> spans =
        at + 1 < lines.size() ? spans_of(lines[at + 1]) : std::vector<Span>();
    if (spans.size() > 1 && spans.back().end() > columns && is_row(line, spans)) {
      const size_t count = table_lines(lines, at, spans);
      const auto first = lines.begin() + static_cast<std::ptrdiff_t>(at);
      fitted +=
          WideTable({first, first + static_cast<std::ptrdiff_t>(count)}, spans, columns).str();
      at += count;
      continue;
    }
    const bool is_rule = !spans_of(line).empty();
    const bool whole = length_of(line) <= columns || is_rule || is_to_be_copied(line);
    fitted += whole ? std::string(line) : in_words(line, columns);
    if (++at < lines.size()) fitted += "\n";
  }
  return fitted;
}

std::string cut_fields(std::string_view text, size_t columns) {
  constexpr std::string_view kBetween = " | ";
  while (length_of(text) > columns) {
    const size_t last = text.rfind(kBetween);
    if (last == text.npos) return std::string(characters(text, 0, columns));
    text = text.substr(0, last);
  }
  return std::string(text);
}

}  // namespace tessera
