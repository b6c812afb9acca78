// Text for people: suggestions for mistyped names, sizes, counts and aligned tables. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

std::string_view trim(std::string_view text);   // spaces, tabs, newlines
std::string lower_case(std::string_view text);  // of ASCII letters
std::vector<std::string_view> split(std::string_view text, char separator);  // keeps empty pieces

// Insertions, deletions, substitutions and swaps of neighbours; letter case is ignored.
int64_t edit_distance(std::string_view a, std::string_view b);

// The known name that `name` was probably meant to be (the first of equals), or empty if none is
// close. A beginning of three letters or more also counts as close ("seq" for "seq_len").
std::string nearest_name(std::string_view name, std::span<const std::string_view> known);

// "did you mean 'layers'?", or "known keys: a, b" where no name is close; `what` is "keys".
std::string suggestion(std::string_view name, std::span<const std::string_view> known,
                       std::string_view what);

std::string human_bytes(int64_t bytes);                      // "12.3 MiB"; below 1 KiB "512 B"
std::string percent_text(double part, double whole);         // "12.3 %"; "0.0 %" of nothing
std::string with_thousands(int64_t value);                   // "1,234,567"
std::string count_of(int64_t count, std::string_view what);  // "1 rank", "2,048 micro-batches"

// At most `limit` bytes of `text` in double quotes, with control characters escaped: what error
// messages show of a value that may be long or hostile.
std::string in_quotes(std::string_view text, size_t limit = 60);

enum class Align : uint8_t { kLeft, kRight };

// A table of text cells: a header line, a rule, then the rows. Columns are as wide as their widest
// cell (counted in code points) and two spaces apart; lines have no trailing spaces.
class TextTable {
 public:
  struct Column {
    std::string header;
    Align align = Align::kLeft;
  };
  explicit TextTable(std::vector<Column> columns);
  void add_row(std::vector<std::string> cells);  // as many cells as columns
  void add_rule();                               // a line of dashes, for totals below it
  [[nodiscard]] std::string str() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

}  // namespace tessera
