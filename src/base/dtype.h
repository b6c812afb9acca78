// Element types. bf16 is a storage type: arithmetic on it happens in f32.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class DType : uint8_t { kF64, kF32, kBF16, kI32 };

constexpr int64_t size_bytes(DType type) {
  switch (type) {
    case DType::kF64:
      return 8;
    case DType::kF32:
      return 4;
    case DType::kBF16:
      return 2;
    case DType::kI32:
      return 4;
  }
  return 0;
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::kF64:
      return "f64";
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kI32:
      return "i32";
  }
  return "?";
}

// What arithmetic on `storage` is done in, and what gradients of it accumulate in.
constexpr DType accumulate_type(DType storage) {
  return storage == DType::kBF16 ? DType::kF32 : storage;
}

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  // Rounds to nearest even; NaN stays NaN.
  explicit BFloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const bool nan = (u & 0x7fffffffU) > 0x7f800000U;
    const uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
    bits = static_cast<uint16_t>(nan ? ((u >> 16) | 0x40U) : rounded);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

}  // namespace tessera
