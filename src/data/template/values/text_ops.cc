#include "data/template/values/text_ops.h"

#include <algorithm>
#include <limits>

#include "base/text/printable.h"

namespace tessera::jinja {
namespace {

std::optional<size_t> space_at(std::string_view text) {
  if (text.empty() || !is_space(first_code(text))) return std::nullopt;
  return character_bytes(text);
}

// The last character of a text that is not empty.
std::string_view last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80) --at;
  return text.substr(at);
}

bool is_stripped(std::string_view character, std::optional<std::string_view> of) {
  return of ? of->find(character) != of->npos : is_space(first_code(character));
}

bool ends_line(uint32_t code) {
  return (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

int64_t or_endless(int64_t most) { return most < 0 ? std::numeric_limits<int64_t>::max() : most; }

std::vector<std::string_view> split_at_space(std::string_view text, int64_t most) {
  std::vector<std::string_view> pieces;
  text = strip(text, Side::kLeft);
  while (!text.empty()) {
    if (static_cast<int64_t>(pieces.size()) == most) {
      pieces.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size() && !space_at(text.substr(end)))
      end += character_bytes(text.substr(end));
    pieces.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::kLeft);
  }
  return pieces;
}

std::vector<std::string_view> split_at_space_from_right(std::string_view text, int64_t most) {
  std::vector<std::string_view> pieces;
  text = strip(text, Side::kRight);
  while (!text.empty()) {
    if (static_cast<int64_t>(pieces.size()) == most) {
      pieces.push_back(text);
      break;
    }
    std::string_view rest = text;
    while (!rest.empty() && !space_at(last_character(rest))) {
      rest.remove_suffix(last_character(rest).size());
    }
    pieces.push_back(text.substr(rest.size()));
    text = strip(rest, Side::kRight);
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace

size_t character_bytes(std::string_view text) { return first_character(text).bytes; }

uint32_t first_code(std::string_view text) { return first_character(text).code; }

void append_code(std::string& text, uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  if (code < 0x800) {
    text += static_cast<char>(0xc0U | (code >> 6U));
  } else {
    if (code < 0x10000) {
      text += static_cast<char>(0xe0U | (code >> 12U));
    } else {
      text += static_cast<char>(0xf0U | (code >> 18U));
      text += static_cast<char>(0x80U | ((code >> 12U) & 0x3fU));
    }
    text += static_cast<char>(0x80U | ((code >> 6U) & 0x3fU));
  }
  text += static_cast<char>(0x80U | (code & 0x3fU));
}

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; });
}

bool is_space(uint32_t code) {
  return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 ||
         code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
         code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> of) {
  while (side != Side::kRight && !text.empty()) {
    const size_t bytes = character_bytes(text);
    if (!is_stripped(text.substr(0, bytes), of)) break;
    text.remove_prefix(bytes);
  }
  while (side != Side::kLeft && !text.empty()) {
    const std::string_view last = last_character(text);
    if (!is_stripped(last, of)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

std::vector<std::string_view> split_text(std::string_view text,
                                         std::optional<std::string_view> separator, int64_t most) {
  most = or_endless(most);
  if (!separator) return split_at_space(text, most);
  std::vector<std::string_view> pieces;
  while (static_cast<int64_t>(pieces.size()) < most) {
    const size_t at = text.find(*separator);
    if (at == text.npos) break;
    pieces.push_back(text.substr(0, at));
    text.remove_prefix(at + separator->size());
  }
  pieces.push_back(text);
  return pieces;
}

std::vector<std::string_view> split_from_right(std::string_view text,
                                               std::optional<std::string_view> separator,
                                               int64_t most) {
  most = or_endless(most);
  if (!separator) return split_at_space_from_right(text, most);
  std::vector<std::string_view> pieces;
  while (static_cast<int64_t>(pieces.size()) < most) {
    const size_t at = text.rfind(*separator);
    if (at == text.npos) break;
    pieces.push_back(text.substr(at + separator->size()));
    text = text.substr(0, at);
  }
  pieces.push_back(text);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    size_t bytes = character_bytes(rest);
    if (!ends_line(first_code(rest))) {
      at += bytes;
      continue;
    }
    if (rest.starts_with("\r\n")) bytes = 2;
    lines.push_back(text.substr(begin, at - begin + (keep_ends ? bytes : 0)));
    at += bytes;
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replace_text(std::string_view text, std::string_view old, std::string_view with,
                         int64_t most) {
  most = or_endless(most);
  std::string result;
  for (int64_t done = 0; done < most; ++done) {
    const size_t at = text.find(old);
    if (at == text.npos) break;
    result += text.substr(0, at);
    result += with;
    text.remove_prefix(at + old.size());
    if (!old.empty()) continue;
    if (text.empty()) return result;
    const size_t bytes = character_bytes(text);
    result += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return result += text;
}

int64_t count_text(std::string_view text, std::string_view part) {
  if (part.empty()) return count_characters(text) + 1;
  int64_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

size_t byte_of(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += character_bytes(text.substr(at));
  return at;
}

std::string slice_text(std::string_view text, int64_t start, int64_t stop, int64_t step) {
  if (step == 1) {
    const size_t begin = byte_of(text, start);
    const std::string_view rest = text.substr(begin);
    return std::string(rest.substr(0, byte_of(rest, stop - start)));
  }
  std::vector<std::string_view> characters;
  for (; !text.empty(); text.remove_prefix(character_bytes(text))) {
    characters.push_back(text.substr(0, character_bytes(text)));
  }
  std::string result;
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    result += characters[static_cast<size_t>(i)];
  }
  return result;
}

}  // namespace tessera::jinja
