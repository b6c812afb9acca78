// Element types of safetensors files, and their conversion to numbers. Little-endian, like the
// machines we run on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace tessera {

// In the order of the format's alignment rule, smallest first; a writer goes from the last to the
// first.
enum class StoredType : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

std::string_view name_of(StoredType type);  // as in the file: "BF16"
std::optional<StoredType> parse_stored_type(std::string_view name);
StoredType stored_type(DType type);

int64_t size_bits(StoredType type);

// Bytes of a dense tensor; nothing where the size overflows int64 or is not a whole number of
// bytes. The one place where "does this tensor's size make sense" is decided.
std::optional<int64_t> tensor_bytes(StoredType type, std::span<const int64_t> shape);

// Whether decode() knows it: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL.
bool is_readable(StoredType type);
bool is_integer(StoredType type);  // of the readable ones; BOOL counts

float half_to_float(uint16_t bits);

// Converts out.size() elements. `bytes` holds exactly those; it need not be aligned. To int64_t
// only from integer types; to float and double with rounding where the type is wider.
void decode(StoredType type, std::span<const std::byte> bytes, std::span<double> out);
void decode(StoredType type, std::span<const std::byte> bytes, std::span<float> out);
void decode(StoredType type, std::span<const std::byte> bytes, std::span<int64_t> out);

}  // namespace tessera
