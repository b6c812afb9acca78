// Strings by their bytes: which of them a text begins with.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera {

class ByteTrie {
 public:
  static constexpr int32_t kRoot = 0;
  static constexpr int32_t kNone = -1;

  // A string that is not empty. One that is there already gets the new value.
  void insert(std::string_view text, int32_t value) {
    int32_t at = kRoot;
    for (const char c : text) {
      const int32_t next = child(at, c);
      at = next != kNone ? next : add_child(at, c);
    }
    values_[static_cast<size_t>(at)] = value;
  }
  // The node after one more byte, or kNone.
  [[nodiscard]] int32_t child(int32_t node, char byte) const {
    const uint64_t key = key_of(node, byte);
    const size_t mask = slots_.size() - 1;
    size_t at = hash(key) & mask;
    while (slots_[at].node != kNone && slots_[at].key != key) at = (at + 1) & mask;
    return slots_[at].node;
  }
  // The value of the string that ends at a node, or kNone.
  [[nodiscard]] int32_t value(int32_t node) const { return values_[static_cast<size_t>(node)]; }

 private:
  struct Slot {
    uint64_t key = 0;
    int32_t node = kNone;
  };
  static uint64_t key_of(int32_t node, char byte) {
    return uint64_t{static_cast<uint32_t>(node)} << 8 | static_cast<unsigned char>(byte);
  }
  static size_t hash(uint64_t key) { return static_cast<size_t>(key * 0x9E3779B97F4A7C15 >> 24); }

  void put(uint64_t key, int32_t node) {
    const size_t mask = slots_.size() - 1;
    size_t at = hash(key) & mask;
    while (slots_[at].node != kNone) at = (at + 1) & mask;
    slots_[at] = {key, node};
  }
  int32_t add_child(int32_t node, char byte) {
    if (2 * (values_.size() + 1) > slots_.size()) {
      const std::vector<Slot> old = std::move(slots_);
      slots_.assign(2 * old.size(), Slot());
      for (const Slot& slot : old) {
        if (slot.node != kNone) put(slot.key, slot.node);
      }
    }
    const auto added = static_cast<int32_t>(values_.size());
    values_.push_back(kNone);
    put(key_of(node, byte), added);
    return added;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(64);  // a power of two, at most half full
  std::vector<int32_t> values_ = {kNone};
};

}  // namespace tessera
