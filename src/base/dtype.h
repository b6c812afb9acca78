// Element types. bf16 and f16 are storage types: arithmetic on them happens in f32.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class DType : uint8_t { kF64, kF32, kBF16, kI32, kF16, kI64, kU8 };
constexpr int kNumDTypes = 7;

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
    case DType::kF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kU8:
      return 1;
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
    case DType::kF16:
      return "f16";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
  }
  return "?";
}

// What arithmetic on `storage` is done in, and what gradients of it accumulate in.
constexpr DType accumulate_type(DType storage) {
  return storage == DType::kBF16 || storage == DType::kF16 ? DType::kF32 : storage;
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

// Both conversions compute every case and choose, so that compilers vectorise them.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  // Rounds to nearest even, to infinity from 65520 on; NaN stays NaN.
  explicit Float16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (u >> 16) & 0x8000U;
    const uint32_t magnitude = u & 0x7fffffffU;
    const uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
    const uint32_t normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    // Adding a half aligns the bits, and rounds as the hardware does.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    const uint32_t subnormal = std::bit_cast<uint32_t>(aligned) - 0x3f000000U;
    uint32_t half = magnitude >= 0x38800000U ? normal : subnormal;
    half = magnitude >= 0x477ff000U ? 0x7c00U : half;
    half = magnitude > 0x7f800000U ? nan : half;
    bits = static_cast<uint16_t>(sign | half);
  }
  explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t magnitude = bits & 0x7fffU;
    const uint32_t special = 0x7f800000U | (magnitude << 13);
    const uint32_t normal = (magnitude << 13) + 0x38000000U;
    const float tiny = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F;
    uint32_t single = magnitude >= 0x400U ? normal : std::bit_cast<uint32_t>(tiny);
    single = magnitude >= 0x7c00U ? special : single;
    return std::bit_cast<float>(sign | single);
  }
};

}  // namespace tessera
