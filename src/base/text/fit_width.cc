#include "base/text/fit_width.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
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

// Whether a break at `space` would part a number from its unit: "73.0 GiB".
bool parts_a_unit(std::string_view line, size_t space) {
  constexpr std::array<std::string_view, 22> kUnits = {
      "B",  "KiB", "MiB", "GiB", "TiB",  "PiB",  "kB",      "MB",      "GB",       "TB",   "s",
      "ms", "us",  "ns",  "%",   "GB/s", "TB/s", "TFLOP/s", "PFLOP/s", "tokens/s", "days", "USD"};
  if (space == 0 || std::isdigit(static_cast<unsigned char>(line[space - 1])) == 0) return false;
  std::string_view word = line.substr(space + 1);
  word = word.substr(0, word.find_first_of(" ,;:)"));
  return std::find(kUnits.begin(), kUnits.end(), word) != kUnits.end();
}

// The last space in [begin, end) where a line may be broken; npos: there is none.
size_t break_before(std::string_view line, size_t begin, size_t end) {
  constexpr size_t kNone = std::string_view::npos;
  const std::string_view head = line.substr(0, end);
  const size_t last = head.rfind(' ');
  for (size_t at = last; at != kNone && at >= begin;
       at = at == 0 ? kNone : head.rfind(' ', at - 1)) {
    if (!parts_a_unit(line, at)) return at;
  }
  return last == kNone || last < begin ? kNone : last;
}

// Lines of at most `width` characters, broken at spaces. A longer word stays whole.
std::vector<std::string> lines_of_cell(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (length_of(text) > width) {
    size_t space = break_before(text, 1, byte_of(text, width + 1));
    if (space == text.npos) space = text.find(' ', byte_of(text, width));
    if (space == text.npos) break;
    lines.push_back(without_end_spaces(std::string(text.substr(0, space))));
    text.remove_prefix(std::min(text.find_first_not_of(' ', space), text.size()));
  }
  lines.emplace_back(text);
  return lines;
}

class WideTable {
 public:
  // `lines`: the header, the rule and the rows.
  WideTable(std::vector<std::string_view> lines, std::vector<Span> spans, size_t columns)
      : lines_(std::move(lines)), spans_(std::move(spans)), columns_(columns) {
    for (const Span& span : spans_) widths_.push_back(span.width);
    raise_caption();
  }

  [[nodiscard]] std::string str() const {
    const std::string head = caption_.empty() ? "" : fit_width(caption_, columns_) + "\n";
    if (fits_behind(2) && !first_tells_apart()) return head + in_blocks(2);
    return fits_behind(1) ? head + in_blocks(1) : row_by_row();
  }

 private:
  static constexpr size_t kLeastText = 24;  // of a column whose cells are broken into lines
  static constexpr size_t kGoodText = 32;   // beside others

  // The name of a first column that is much wider than what stands in it becomes a line above.
  void raise_caption() {
    constexpr size_t kWorthIt = 8;
    const std::string name = cell(lines_[0], 0);
    size_t widest = 1;
    for (size_t r = 2; r < lines_.size(); ++r) {
      if (spans_of(lines_[r]).empty()) widest = std::max(widest, length_of(cell(lines_[r], 0)));
    }
    if (name.find(' ') == name.npos || !is_left(0) || widths_[0] < widest + kWorthIt) return;
    caption_ = name;
    widths_[0] = widest;
  }

  [[nodiscard]] size_t width_of_keys(size_t keys) const {
    size_t width = 0;
    for (size_t c = 0; c < keys; ++c) width += widths_[c] + (c > 0 ? kGap : 0);
    return width;
  }

  // Whether any other column has room beside the first `keys` columns.
  [[nodiscard]] bool fits_behind(size_t keys) const {
    if (keys >= spans_.size()) return false;
    size_t widest = 0;
    for (size_t c = keys; c < spans_.size(); ++c) {
      widest = std::max(widest, is_text(c) ? std::min(widths_[c], kLeastText) : widths_[c]);
    }
    return width_of_keys(keys) + kGap + widest <= columns_;
  }

  // Whether its cells may be broken into lines.
  [[nodiscard]] bool is_text(size_t c) const {
    return is_left(c) && std::any_of(lines_.begin() + 2, lines_.end(), [&](std::string_view line) {
             return cell(line, c).find(' ') != std::string::npos;
           });
  }
  [[nodiscard]] bool is_left(size_t c) const {
    return std::all_of(lines_.begin(), lines_.end(), [&](std::string_view line) {
      return cell(line, c).empty() || !whole_cell(line, c).starts_with(' ');
    });
  }

  [[nodiscard]] bool first_tells_apart() const {
    std::set<std::string> seen;
    return std::all_of(lines_.begin() + 2, lines_.end(), [&](std::string_view line) {
      return !spans_of(line).empty() || seen.insert(cell(line, 0)).second;
    });
  }

  // Columns and how wide they are in a block.
  using Block = std::vector<std::pair<size_t, size_t>>;

  // A column of numbers without a name says the one before it in another unit.
  [[nodiscard]] bool is_second_unit(size_t c) const {
    return cell(lines_[0], c).empty() && !is_left(c);
  }

  // Those that have room, from `first` on; at least one. A second unit stays beside the first.
  [[nodiscard]] Block next_block(size_t first, size_t room) const {
    Block block;
    const size_t all = room - kGap;  // what a column could have at most
    for (size_t c = first; c < spans_.size();) {
      size_t end = c + 1, needed = kGap + widths_[c];
      while (end < spans_.size() && is_second_unit(end)) needed += kGap + widths_[end++];
      if (needed > room && !block.empty() && (widths_[c] <= all || room < kGap + kGoodText)) break;
      if (needed > room) {
        const size_t width = std::min(widths_[c], room - kGap);
        block.emplace_back(c, width);
        room -= kGap + width;
        if (++c < end && kGap + widths_[c] > room) break;
        continue;
      }
      for (; c < end; ++c) block.emplace_back(c, widths_[c]);
      room -= needed;
    }
    return block;
  }

  // `keys` columns stand in every block, and as many others as have room.
  [[nodiscard]] std::string in_blocks(size_t keys) const {
    std::string text;
    for (size_t first = keys; first < spans_.size();) {
      Block block = next_block(first, columns_ - width_of_keys(keys));
      if (first > keys) text += "\n";
      first = block.back().first + 1;
      for (size_t c = keys; c-- > 0;) block.insert(block.begin(), {c, widths_[c]});
      for (const std::string_view line : lines_) text += block_row(line, block);
    }
    return text;
  }

  [[nodiscard]] std::string block_row(std::string_view line, const Block& block) const {
    std::vector<std::vector<std::string>> cells;
    size_t height = 1;
    for (const auto& [c, width] : block) {
      cells.push_back(cell_lines(line, c, width));
      height = std::max(height, cells.back().size());
    }
    std::string text;
    for (size_t row = 0; row < height; ++row) {
      std::string part;
      for (size_t i = 0; i < block.size(); ++i) {
        std::string piece = row < cells[i].size() ? cells[i][row] : "";
        piece.resize(piece.size() + block[i].second - std::min(block[i].second, length_of(piece)),
                     ' ');
        part += (i > 0 ? std::string(kGap, ' ') : "") + piece;
      }
      text += without_end_spaces(part) + "\n";
    }
    return text;
  }

  [[nodiscard]] std::vector<std::string> cell_lines(std::string_view line, size_t c,
                                                    size_t width) const {
    if (!spans_of(line).empty()) return {std::string(width, '-')};
    if (c == 0 && !caption_.empty()) return {line == lines_[0] ? "" : cell(line, c)};
    return width < widths_[c] ? lines_of_cell(cell(line, c), width)
                              : std::vector<std::string>{whole_cell(line, c)};
  }

  [[nodiscard]] std::string row_by_row() const {
    std::string text;
    for (size_t r = 2; r < lines_.size(); ++r) {
      if (!spans_of(lines_[r]).empty()) continue;
      for (size_t c = 0; c < spans_.size(); ++c) {
        const std::string name = cell(lines_[0], c), value = cell(lines_[r], c);
        if (value.empty()) continue;
        const std::string line = name.empty() ? value : name + ": " + value;
        text += fit_width((c > 0 ? "  " : "") + line, columns_) + "\n";
      }
    }
    return text;
  }

  // As it stands in the line, with the spaces before and behind it.
  [[nodiscard]] std::string whole_cell(std::string_view line, size_t c) const {
    return std::string(characters(line, spans_[c].first, spans_[c].width));
  }
  [[nodiscard]] std::string cell(std::string_view line, size_t c) const {
    return std::string(trim(whole_cell(line, c)));
  }

  std::vector<std::string_view> lines_;
  std::vector<Span> spans_;
  std::vector<size_t> widths_;
  std::string caption_;
  size_t columns_;
};

// Where further lines begin: below the text behind a label ("mesh      pp=4"), else two spaces in.
struct Indent {
  size_t characters = 0;
  size_t byte = 0;  // where the text begins in the line
  bool behind_label = false;
};

Indent indent_of(std::string_view line, size_t columns) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t label = line.find("  ", begin);
  const size_t text = label == line.npos ? line.npos : line.find_first_not_of(' ', label);
  if (text == line.npos) return {std::min(begin + 2, columns / 2), begin};
  const size_t before = length_of(line.substr(0, text));
  if (before <= columns / 2) return {before, text, true};
  return {std::min(begin + 4, columns / 2), text, false};
}

// A label that takes more than half of the line has a line of its own.
std::string in_words(std::string_view line, size_t columns) {
  const Indent indent = indent_of(line, columns);
  const std::string margin(indent.characters, ' ');
  std::string text;
  const bool far_label = !indent.behind_label && indent.byte > line.find_first_not_of(' ');
  if (far_label) {
    text = without_end_spaces(std::string(line.substr(0, indent.byte))) + "\n";
    line.remove_prefix(indent.byte);
  }
  const size_t width = columns - indent.characters;
  bool first = !far_label;
  while (length_of(line) > (first ? columns : width)) {
    const size_t room = byte_of(line, (first ? columns : width) + 1);
    const size_t begin = first ? std::min(indent.byte, line.size()) : 0;
    size_t space = break_before(line, begin, room);
    // A word that is longer than a line stays whole.
    if (space == line.npos) space = line.find(' ', room);
    if (space == line.npos) break;
    text += (first ? "" : margin) + without_end_spaces(std::string(line.substr(0, space))) + "\n";
    line.remove_prefix(std::min(line.find_first_not_of(' ', space), line.size()));
    first = false;
  }
  return text + (first ? "" : margin) + std::string(line);
}

// Flags and commands are there to be copied: they stay whole, and what is said of them, or before
// them, goes on lines of its own. Nothing: `line` has none.
std::optional<std::string> with_command(std::string_view line, size_t columns) {
  constexpr size_t kShortLabel = 12;  // "Example: tessera …"
  const std::string_view text = trim(line);
  const size_t begin = line.find_first_not_of(' ');
  if (text.starts_with("tessera ")) return std::string(line);
  const bool in_columns = text.find("  ") != text.npos;  // a flag and what it does
  if (text.starts_with("--") && !in_columns) {
    const size_t said = line.find(": ");
    if (said == line.npos) return std::string(line);
    const std::string why = std::string(begin + 4, ' ') + std::string(line.substr(said + 2));
    return std::string(line.substr(0, said + 1)) + "\n" + in_words(why, columns);
  }
  const size_t command = line.find(": tessera ");
  if (command == line.npos || text.starts_with("Usage")) return std::nullopt;
  if (!in_columns && command <= begin + kShortLabel) return std::string(line);
  const std::string before = in_words(line.substr(0, command + 1), columns);
  return before + "\n" + std::string(indent_of(line, columns).characters, ' ') +
         std::string(line.substr(command + 2));
}

// How many lines from `at` on are a table: a header, a rule and rows.
size_t table_lines(const std::vector<std::string_view>& lines, size_t at,
                   const std::vector<Span>& spans) {
  size_t end = at + 2;
  while (end < lines.size() && is_row(lines[end], spans)) ++end;
  return end - at;
}

std::string fit_line(std::string_view line, size_t columns) {
  if (length_of(line) <= columns || !spans_of(line).empty()) return std::string(line);
  const std::optional<std::string> command = with_command(line, columns);
  return command ? *command : in_words(line, columns);
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
    fitted += fit_line(line, columns);
    if (++at < lines.size()) fitted += "\n";
  }
  return fitted;
}

std::string cut_fields(std::string_view text, size_t columns) {
  constexpr std::string_view kBetween = " | ";
  while (length_of(text) > columns) {
    const size_t last = text.rfind(kBetween);
    if (last == text.npos && columns > 0)
      return std::string(characters(text, 0, columns - 1)) + "…";
    if (last == text.npos) return "";
    text = text.substr(0, last);
  }
  return std::string(text);
}

}  // namespace tessera
