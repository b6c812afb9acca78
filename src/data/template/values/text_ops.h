// Python's methods of strings, on UTF-8: positions and lengths count characters (code points),
// white space and letter case are Unicode's. Pure; text is valid UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::jinja {

// Bytes of the first character of a text that is not empty.
size_t character_bytes(std::string_view text);
uint32_t first_code(std::string_view text);
void append_code(std::string& text, uint32_t code);
int64_t count_characters(std::string_view text);

bool is_space(uint32_t code);
bool is_printable_in_python(uint32_t code);  // what repr() shows as it is

enum class Side : uint8_t { kBoth, kLeft, kRight };
// Without white space at its ends, or without the characters that `of` has.
std::string_view strip(std::string_view text, Side side = Side::kBoth,
                       std::optional<std::string_view> of = std::nullopt);

// At most `most` cuts (negative: all). Without a separator: at runs of white space, without empty
// pieces.
std::vector<std::string_view> split_text(std::string_view text,
                                         std::optional<std::string_view> separator, int64_t most);
std::vector<std::string_view> split_from_right(std::string_view text,
                                               std::optional<std::string_view> separator,
                                               int64_t most);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// At most `most` replacements (negative: all). An empty `old` is found around every character.
std::string replace_text(std::string_view text, std::string_view old, std::string_view with,
                         int64_t most);
// How often `part` is found, without overlaps.
int64_t count_text(std::string_view text, std::string_view part);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);         // str.title(): words are runs of letters
std::string title_filter(std::string_view text);  // `| title`: words end at spaces and brackets
bool is_cased(uint32_t code);                     // a letter that has another case
bool is_all_upper(std::string_view text);
bool is_all_lower(std::string_view text);

// The byte at which character `index` begins; the end for those behind it.
size_t byte_of(std::string_view text, int64_t index);
// text[start:stop:step], all three as Python has resolved them.
std::string slice_text(std::string_view text, int64_t start, int64_t stop, int64_t step);

}  // namespace tessera::jinja
