// Turns a stream of bytes into whole lines with a prefix before each.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

class LinePrefixer {
 public:
  // A longer line is cut into several: what has no end must not fill the memory.
  static constexpr size_t kMaxLineBytes = 64 * 1024;

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  // Appends to `out` the lines that `bytes` complete; keeps the rest.
  void feed(std::string_view bytes, std::string& out);
  // The end of the stream: a last line without a newline gets one.
  void finish(std::string& out);

 private:
  void emit(std::string& out);

  std::string prefix_;
  std::string pending_;  // the beginning of a line
};

}  // namespace tessera
