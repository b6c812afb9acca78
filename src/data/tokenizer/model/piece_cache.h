// The ids of pieces that were seen lately: most of a text is a few thousand words. One table for
// short pieces with few ids, two in a line of the processor's cache; one for longer ones, a line
// each.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

class PieceCache {
 public:
  static constexpr size_t kMostBytes = 32;
  static constexpr size_t kMostIds = 7;

  // A piece of 1 to kMostBytes bytes: words that overlap, so that any size takes few loads. With
  // the number of bytes they say which piece it is.
  struct Key {
    std::array<uint64_t, 4> words{};
    uint32_t bytes = 0;
    uint32_t hash = 0;
  };
  static Key key_of(std::string_view piece) {
    Key key;
    const size_t size = piece.size();
    const char* data = piece.data();
    key.bytes = static_cast<uint32_t>(size);
    if (size > 16) {
      key.words = {word(data), word(data + 8), word(data + size - 16), word(data + size - 8)};
    } else if (size >= 8) {
      key.words = {word(data), word(data + size - 8), 0, 0};
    } else if (size >= 4) {
      key.words[0] = uint64_t{half(data)} << 32 | half(data + size - 4);
    } else {
      // One byte gives the first alone, two give both, three give all.
      const auto byte = [&](size_t i) { return uint64_t{static_cast<unsigned char>(data[i])}; };
      key.words[0] = byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16;
    }
    key.hash = hash_of(key);
    return key;
  }

  // Fetches what find() will look at.
  void prefetch(const Key& key) const {
    if (key.bytes <= kShortBytes) {
      __builtin_prefetch(&pairs_[key.hash >> (32 - kPairBits)]);
    } else {
      __builtin_prefetch(&lines_[key.hash >> (32 - kLineBits)]);
    }
  }
  // The ids of the piece; empty where they are not known. Holds until the next call.
  [[nodiscard]] std::span<const int32_t> find(const Key& key) {
    if (key.bytes <= kShortBytes) {
      Pair& pair = pairs_[key.hash >> (32 - kPairBits)];
      if (pair.first.is(key)) return pair.first.known();
      if (pair.second.is(key)) {
        std::swap(pair.first, pair.second);  // a new piece takes the place of the older one
        return pair.first.known();
      }
    }
    const Line& line = lines_[key.hash >> (32 - kLineBits)];
    if (line.bytes != key.bytes || line.words != key.words) return {};
    return {line.ids.data(), line.count};
  }
  // Does nothing with more than kMostIds ids, or none.
  void put(const Key& key, std::span<const int32_t> ids) {
    if (ids.empty() || ids.size() > kMostIds) return;
    const auto count = static_cast<uint8_t>(ids.size());
    if (key.bytes <= kShortBytes && count <= kShortIds) {
      Pair& pair = pairs_[key.hash >> (32 - kPairBits)];
      pair.second = pair.first;
      pair.first.words = {key.words[0], key.words[1]};
      pair.first.bytes = static_cast<uint8_t>(key.bytes);
      pair.first.count = count;
      std::memcpy(pair.first.ids.data(), ids.data(), ids.size_bytes());
      return;
    }
    Line& line = lines_[key.hash >> (32 - kLineBits)];
    line.words = key.words;
    line.bytes = static_cast<uint8_t>(key.bytes);
    line.count = count;
    std::memcpy(line.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr size_t kShortBytes = 16;
  static constexpr size_t kShortIds = 3;
  static constexpr int kPairBits = 15;  // 2 MiB
  static constexpr int kLineBits = 14;  // 1 MiB

  struct Short {
    std::array<uint64_t, 2> words{};
    std::array<int32_t, kShortIds> ids{};
    uint8_t bytes = 0;  // 0: empty
    uint8_t count = 0;
    [[nodiscard]] bool is(const Key& key) const {
      return words[0] == key.words[0] && words[1] == key.words[1] && bytes == key.bytes;
    }
    [[nodiscard]] std::span<const int32_t> known() const { return {ids.data(), count}; }
  };
  struct alignas(64) Pair {
    Short first, second;
  };
  struct alignas(64) Line {
    std::array<uint64_t, 4> words{};
    std::array<int32_t, kMostIds> ids{};
    uint8_t bytes = 0;  // 0: empty
    uint8_t count = 0;
  };
  static_assert(sizeof(Pair) == 64 && sizeof(Line) == 64);

  static uint64_t word(const char* at) {
    uint64_t value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  static uint32_t half(const char* at) {
    uint32_t value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  static uint32_t hash_of(const Key& key) {
    uint64_t hash = (key.words[0] ^ key.bytes) * 0x9E3779B97F4A7C15;
    hash = (hash ^ hash >> 29 ^ key.words[1]) * 0xBF58476D1CE4E5B9;
    if (key.bytes > kShortBytes) {
      hash = (hash ^ hash >> 32 ^ key.words[2]) * 0x94D049BB133111EB;
      hash = (hash ^ hash >> 29 ^ key.words[3]) * 0x9E3779B97F4A7C15;
    }
    return static_cast<uint32_t>(hash >> 32);
  }

  std::vector<Pair> pairs_ = std::vector<Pair>(size_t{1} << kPairBits);
  std::vector<Line> lines_ = std::vector<Line>(size_t{1} << kLineBits);
};

}  // namespace tessera
