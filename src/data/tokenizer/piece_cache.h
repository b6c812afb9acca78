// The ids of pieces that were seen lately: most of a text is a few thousand words. A slot is one
// line of the processor's cache; a new piece takes the place of an old one.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

class PieceCache {
 public:
  static constexpr size_t kMostBytes = 24;
  static constexpr size_t kMostIds = 8;

  // A piece of 1 to kMostBytes bytes, padded with zeros.
  struct Key {
    std::array<uint64_t, 3> words{};
    uint32_t bytes = 0;
  };
  static Key key_of(std::string_view piece) {
    Key key;
    key.bytes = static_cast<uint32_t>(piece.size());
    std::memcpy(key.words.data(), piece.data(), piece.size());
    return key;
  }

  // The ids of the piece; empty where they are not known.
  [[nodiscard]] std::span<const int32_t> find(const Key& key) const {
    const Slot& slot = slots_[slot_of(key)];
    if (slot.bytes != key.bytes || slot.words != key.words) return {};
    return {slot.ids.data(), slot.count};
  }
  // Does nothing with more than kMostIds ids, or none.
  void put(const Key& key, std::span<const int32_t> ids) {
    if (ids.empty() || ids.size() > kMostIds) return;
    Slot& slot = slots_[slot_of(key)];
    slot.words = key.words;
    slot.bytes = static_cast<uint16_t>(key.bytes);
    slot.count = static_cast<uint16_t>(ids.size());
    std::memcpy(slot.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr int kBits = 15;  // 2 MiB
  struct alignas(64) Slot {
    std::array<uint64_t, 3> words{};
    std::array<int32_t, kMostIds> ids{};
    uint16_t bytes = 0;  // 0: empty
    uint16_t count = 0;
  };
  static size_t slot_of(const Key& key) {
    uint64_t hash = (key.words[0] ^ key.bytes) * 0x9E3779B97F4A7C15;
    hash = (hash ^ hash >> 29 ^ key.words[1]) * 0xBF58476D1CE4E5B9;
    hash = (hash ^ hash >> 32 ^ key.words[2]) * 0x94D049BB133111EB;
    return static_cast<size_t>(hash >> (64 - kBits));
  }
  std::vector<Slot> slots_ = std::vector<Slot>(size_t{1} << kBits);
};

}  // namespace tessera
