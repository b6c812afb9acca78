#include "data/text_doubt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace tessera {
namespace {

// Neither printable ASCII, nor white space, nor part of a letter in UTF-8.
bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  const bool white = byte == '\t' || byte == '\n' || byte == '\r' || byte == '\f' || byte == '\v';
  return (byte < 0x20 && !white) || byte == 0x7f;
}

}  // namespace

std::string text_doubt(std::string_view beginning) {
  if (beginning.starts_with("\xff\xfe") || beginning.starts_with("\xfe\xff")) {
    return "begins with the mark of UTF-16";
  }
  const auto zeros = std::count(beginning.begin(), beginning.end(), '\0');
  const auto controls = std::count_if(beginning.begin(), beginning.end(), is_control);
  const auto size = static_cast<std::ptrdiff_t>(beginning.size());
  // In UTF-16 every second byte of Western letters is 0; noise has one control in eight.
  if (zeros * 4 > size) return "is full of zero bytes, as UTF-16 and binary files are";
  if (controls * 50 > size) return "has many bytes that no text has";
  return "";
}

std::string data_note(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  std::ifstream in(path, std::ios::binary);
  std::array<char, 65536> bytes = {};
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const std::string doubt =
      text_doubt({bytes.data(), static_cast<size_t>(std::max<std::streamsize>(0, in.gcount()))});
  if (doubt.empty()) return "";
  return fmt::format(
      "data file '{}' {}: its bytes are the tokens all the same; convert it to UTF-8 if it is text",
      path.string(), doubt);
}

}  // namespace tessera
