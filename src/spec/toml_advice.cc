#include "spec/toml_advice.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text/pasted.h"
#include "base/text/printable.h"
#include "base/text/text.h"

namespace tessera {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

struct Line {
  std::string_view whole;
  std::string_view key, value;  // around the first "="; empty without one
};

Line line_of(std::string_view text, size_t number) {
  const std::vector<std::string_view> lines = split(text, '\n');
  if (number == 0 || number > lines.size()) return {};
  const std::string_view whole = trim(lines[number - 1]);
  const size_t equals = whole.find('=');
  if (equals == std::string_view::npos) return {whole, "", ""};
  return {whole, trim(whole.substr(0, equals)), trim(whole.substr(equals + 1))};
}

std::string of_another_language(const Line& line) {
  const size_t colon = line.whole.find(':');
  const bool yaml = line.key.empty() && colon != std::string_view::npos &&
                    is_name(trim(line.whole.substr(0, colon)));
  if (!yaml) return "";
  const std::string_view value = trim(line.whole.substr(colon + 1));
  return fmt::format(
      "; this is how YAML is written, and the file is TOML: {}",
      value.empty() ? "a section is [name], a key is name = value" : "write name = value");
}

// A value that begins like a word: no text without quotes, no True, no None.
std::string of_a_word(const Line& line) {
  if (!is_name(line.key) || line.value.empty()) return "";
  const std::string_view word = trim(line.value.substr(0, line.value.find('#')));
  const std::string small = lower_case(word);
  if (small == "true" || small == "false" || small == "yes" || small == "no" || small == "on") {
    const bool yes = small == "true" || small == "yes" || small == "on";
    return fmt::format("; write {} = {}", line.key, yes ? "true" : "false");
  }
  if (small == "none" || small == "null") {
    return fmt::format("; leave the key {} out to have its default", line.key);
  }
  const char first = word.empty() ? '"' : word.front();
  if (!is_letter(first) && first != '/' && first != '~' && first != '.') return "";
  return fmt::format("; a text goes between quotes: {} = \"{}\"", line.key, shortened(word, 60));
}

std::string of_a_number(const Line& line) {
  const std::string_view value = trim(line.value.substr(0, line.value.find('#')));
  if (value.empty() || !is_digit(value.front()) || value.find(',') == std::string_view::npos) {
    return "";
  }
  std::string digits(value);
  std::erase(digits, ',');
  if (!std::all_of(digits.begin(), digits.end(), is_digit)) return "";
  return fmt::format("; write the number without commas: {} = {}", line.key, digits);
}

std::string of_a_quote(const Line& line) {
  if (line.value.empty() || (line.value.front() != '"' && line.value.front() != '\'')) return "";
  if (line.value.front() == '"' && line.value.find('\\') != std::string_view::npos) {
    return fmt::format(
        "; a backslash between double quotes is special: write the path with /, or between single "
        "quotes");
  }
  const auto quotes = std::count(line.value.begin(), line.value.end(), line.value.front());
  return quotes == 1 ? fmt::format("; the closing {} is missing", line.value.front()) : "";
}

}  // namespace

void refuse_other_formats(std::string_view text, const std::string& file_name) {
  const bool utf16 = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
  require_config(!utf16, "{}: the file is UTF-16: save it as UTF-8", file_name);
  require_config(text.find('\0') == std::string_view::npos,
                 "{}: this is no text file, and the file has to be TOML", file_name);
  require_config(!trim(text).starts_with('{'),
                 "{}: this is JSON, and a run file is TOML: the run file of a run directory is the "
                 "resolved.toml in it",
                 file_name);
}

std::string_view parser_reason(std::string_view description) {
  const size_t colon = description.find(": ");
  const bool names_part = description.starts_with("Error while parsing ");
  return names_part && colon != std::string_view::npos ? description.substr(colon + 2)
                                                       : description;
}

std::string toml_advice(std::string_view text, size_t line_number, std::string_view reason) {
  const Line line = line_of(text, line_number);
  if (const std::optional<PastedCharacter> pasted = find_pasted(line.whole)) {
    return fmt::format("; the line has {}, from a page or a document: write {}", describe(*pasted),
                       shortened(typed_plainly(line.whole), 80));
  }
  if (reason.find("redefine") != std::string_view::npos) {
    return "; it is there twice: keep one of them";
  }
  for (const auto advice : {of_another_language, of_a_number, of_a_quote, of_a_word}) {
    if (const std::string found = advice(line); !found.empty()) return found;
  }
  if (line.whole.starts_with('[') && line.whole.find(']') == std::string_view::npos) {
    return "; the closing ] is missing";
  }
  const bool no_value = !line.whole.empty() && line.key.empty() && !line.whole.starts_with('[');
  return no_value ? "; a line of TOML is name = value, or [section]" : "";
}

}  // namespace tessera
