// A place between two lines of a file of metrics, as events and links name it:
// "LINE.OFFSET.KEY", for instance "12.4621.9f3a1c2b". It holds after a restart of the server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

struct LinePlace {
  int64_t line = 0;    // lines before it
  int64_t offset = 0;  // bytes before it; -1: not known
  std::string key;     // of the file's first line; empty: of whatever file is there

  [[nodiscard]] std::string text() const;
};

// Also of a line's number alone. Nothing: it is no place.
std::optional<LinePlace> parse_line_place(std::string_view text);

// Eight digits that tell files of metrics apart. `start`: the file's first bytes. Nothing while its
// first line is not whole.
inline constexpr int64_t kKeyBytes = 4096;
std::optional<std::string> file_key(std::string_view start);

}  // namespace tessera
