// Bodies of frames: numbers are little-endian, a text is its length (u32) and its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

void put_number(std::string& bytes, uint32_t value);
void put_long(std::string& bytes, uint64_t value);
void put_text(std::string& bytes, std::string_view text);

// Reads a body from front to back. Throws Error where it ends too early, before it copies anything.
class FrameBody {
 public:
  explicit FrameBody(std::string_view bytes) : rest_(bytes) {}
  uint32_t number();
  uint64_t long_number();
  std::string text() { return std::string(take(number())); }
  std::string_view take(size_t count);
  void end() const;  // throws Error unless all has been read

 private:
  std::string_view rest_;
};

}  // namespace tessera
