// Strings and the numbers that they stand for: one flat table, one arena.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

inline constexpr int32_t kNoToken = -1;

// A hash of bytes for tables in memory: quick, the same on every machine with the same byte order.
uint64_t hash_bytes(std::string_view bytes);

class StringTable {
 public:
  void reserve(size_t strings, size_t bytes);
  // A string that is there already gets the new value.
  void insert(std::string_view text, int32_t value);
  // kNoToken: it is not there.
  [[nodiscard]] int32_t find(std::string_view text) const {
    return slots_.empty() ? kNoToken : slots_[slot_of(text)].value;
  }
  [[nodiscard]] size_t size() const { return size_; }
  // The strings in the order in which they came.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const Entry& entry : entries_)
      visit(text_of(entry), slots_[slot_of(text_of(entry))].value);
  }

 private:
  struct Entry {
    uint32_t begin = 0;
    uint32_t bytes = 0;
  };
  struct Slot {
    uint32_t tag = 0;
    uint32_t entry = 0;
    int32_t value = kNoToken;
  };
  [[nodiscard]] std::string_view text_of(const Entry& entry) const {
    return std::string_view(arena_).substr(entry.begin, entry.bytes);
  }
  // Where `text` is, or would be.
  [[nodiscard]] size_t slot_of(std::string_view text) const;
  void grow(size_t slots);

  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // a power of two, at most half full; value kNoToken: empty
  size_t size_ = 0;
};

}  // namespace tessera
