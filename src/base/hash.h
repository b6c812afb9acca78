// 64-bit FNV-1a hashes, the same on every platform. For identity and change detection, not
// against an adversary.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace tessera {

inline constexpr uint64_t kFnvOffsetBasis = 0xcbf29ce484222325;

// Hashes a sequence of typed values. A string counts its length, so {"ab", "c"} and {"a", "bc"}
// differ; integers of any width hash by value, doubles by bit pattern.
class Hasher {
 public:
  void add(std::string_view text);
  void add(std::integral auto value) {
    if constexpr (std::is_signed_v<decltype(value)>) {
      add_word(static_cast<uint64_t>(static_cast<int64_t>(value)));
    } else {
      add_word(static_cast<uint64_t>(value));
    }
  }
  void add(double value);
  [[nodiscard]] uint64_t value() const;

 private:
  void add_word(uint64_t word);
  uint64_t state_ = kFnvOffsetBasis;
};

// Plain FNV-1a of the bytes: the random stream of a named tensor, for example.
uint64_t hash_name(std::string_view name);

// 16 lower-case digits.
std::string hex(uint64_t value);

}  // namespace tessera
