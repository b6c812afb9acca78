// The lines of a file that may still be growing, or be no text at all, in bounded memory.
#pragma once

#include <cstdint>
#include <istream>
#include <string>

namespace tessera {

class BoundedLines {
 public:
  static constexpr size_t kLongest = size_t{1} << 20;

  explicit BoundedLines(std::istream& in) : in_(in) {}

  // False at the end. The line is in text(), without its newline; one that is longer than kLongest
  // is passed over, and too_long() says so.
  bool next();
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] int64_t number() const { return number_; }  // 1 is the first
  [[nodiscard]] bool too_long() const { return too_long_; }
  [[nodiscard]] bool ended() const { return ended_; }  // by a newline: whole
 private:
  std::istream& in_;
  std::string text_;
  int64_t number_ = 0;
  bool too_long_ = false;
  bool ended_ = false;
};

}  // namespace tessera
