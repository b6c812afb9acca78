// The hash of tools/record_tokenizers.js and tools/record_fuzz.js: FNV-1a of numbers as four bytes,
// lowest first; lists and texts begin with their length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "data/tokenizer/common/piece.h"

namespace tessera::testing {

class RecordedHash {
 public:
  void add(uint32_t number) {
    for (int i = 0; i < 4; ++i) add_byte(static_cast<uint8_t>(number >> (8 * i)));
  }
  void add(const std::vector<int32_t>& list) {
    add(static_cast<uint32_t>(list.size()));
    for (const int32_t number : list) add(static_cast<uint32_t>(number));
  }
  void add(const std::string& text) {
    add(static_cast<uint32_t>(text.size()));
    for (const char c : text) add_byte(static_cast<uint8_t>(c));
  }
  void add(const std::vector<ByteRange>& offsets) {
    add(static_cast<uint32_t>(2 * offsets.size()));
    for (const ByteRange& range : offsets) {
      add(range.begin);
      add(range.end);
    }
  }
  [[nodiscard]] std::string text() const { return hex(value_); }

 private:
  void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  uint64_t value_ = kFnvOffsetBasis;
};

}  // namespace tessera::testing
