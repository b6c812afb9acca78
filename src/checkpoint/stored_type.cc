#include "checkpoint/stored_type.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes are used as they are");

enum class Reading : uint8_t { kNone, kFloat, kInteger };

struct TypeRow {
  StoredType type;
  std::string_view name;
  int bits;
  Reading reading;
};

constexpr std::array kTypes = {
    TypeRow{StoredType::kBool, "BOOL", 8, Reading::kInteger},
    TypeRow{StoredType::kF4, "F4", 4, Reading::kNone},
    TypeRow{StoredType::kF6E2M3, "F6_E2M3", 6, Reading::kNone},
    TypeRow{StoredType::kF6E3M2, "F6_E3M2", 6, Reading::kNone},
    TypeRow{StoredType::kU8, "U8", 8, Reading::kInteger},
    TypeRow{StoredType::kI8, "I8", 8, Reading::kInteger},
    TypeRow{StoredType::kF8E5M2, "F8_E5M2", 8, Reading::kNone},
    TypeRow{StoredType::kF8E4M3, "F8_E4M3", 8, Reading::kNone},
    TypeRow{StoredType::kF8E8M0, "F8_E8M0", 8, Reading::kNone},
    TypeRow{StoredType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8, Reading::kNone},
    TypeRow{StoredType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8, Reading::kNone},
    TypeRow{StoredType::kI16, "I16", 16, Reading::kInteger},
    TypeRow{StoredType::kU16, "U16", 16, Reading::kNone},
    TypeRow{StoredType::kF16, "F16", 16, Reading::kFloat},
    TypeRow{StoredType::kBF16, "BF16", 16, Reading::kFloat},
    TypeRow{StoredType::kI32, "I32", 32, Reading::kInteger},
    TypeRow{StoredType::kU32, "U32", 32, Reading::kNone},
    TypeRow{StoredType::kF32, "F32", 32, Reading::kFloat},
    TypeRow{StoredType::kC64, "C64", 64, Reading::kNone},
    TypeRow{StoredType::kF64, "F64", 64, Reading::kFloat},
    TypeRow{StoredType::kI64, "I64", 64, Reading::kInteger},
    TypeRow{StoredType::kU64, "U64", 64, Reading::kNone},
};

constexpr bool rows_match_enum() {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].type != static_cast<StoredType>(i)) return false;
  }
  return true;
}
static_assert(rows_match_enum(), "kTypes is indexed by StoredType");

const TypeRow& row(StoredType type) { return kTypes[static_cast<size_t>(type)]; }

struct Half {
  uint16_t bits;
  explicit operator float() const { return half_to_float(bits); }
};

struct Bool {
  uint8_t bits;
  explicit operator int() const { return bits != 0 ? 1 : 0; }
};

template <typename Stored, typename T>
T convert(Stored value) {
  if constexpr (std::is_same_v<Stored, Half> || std::is_same_v<Stored, BFloat16>) {
    return static_cast<T>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<Stored, Bool>) {
    return static_cast<T>(static_cast<int>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename Stored, typename T>
void decode_as(std::span<const std::byte> bytes, std::span<T> out) {
  TESSERA_CHECK(bytes.size() == out.size() * sizeof(Stored), "{} bytes for {} elements of {}",
                bytes.size(), out.size(), sizeof(Stored));
  for (size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = convert<Stored, T>(value);
  }
}

template <typename T>
void decode_any(StoredType type, std::span<const std::byte> bytes, std::span<T> out) {
  switch (type) {
    case StoredType::kBool:
      return decode_as<Bool>(bytes, out);
    case StoredType::kU8:
      return decode_as<uint8_t>(bytes, out);
    case StoredType::kI8:
      return decode_as<int8_t>(bytes, out);
    case StoredType::kI16:
      return decode_as<int16_t>(bytes, out);
    case StoredType::kI32:
      return decode_as<int32_t>(bytes, out);
    case StoredType::kI64:
      return decode_as<int64_t>(bytes, out);
    case StoredType::kF16:
      return decode_as<Half>(bytes, out);
    case StoredType::kBF16:
      return decode_as<BFloat16>(bytes, out);
    case StoredType::kF32:
      return decode_as<float>(bytes, out);
    case StoredType::kF64:
      return decode_as<double>(bytes, out);
    default:
      break;
  }
  TESSERA_CHECK(false, "decode of {}", name_of(type));
}

}  // namespace

std::string_view name_of(StoredType type) { return row(type).name; }

std::optional<StoredType> parse_stored_type(std::string_view name) {
  for (const TypeRow& candidate : kTypes) {
    if (candidate.name == name) return candidate.type;
  }
  return std::nullopt;
}

StoredType stored_type(DType type) {
  switch (type) {
    case DType::kF64:
      return StoredType::kF64;
    case DType::kF32:
      return StoredType::kF32;
    case DType::kBF16:
      return StoredType::kBF16;
    case DType::kI32:
      return StoredType::kI32;
    case DType::kF16:
      return StoredType::kF16;
    case DType::kI64:
      return StoredType::kI64;
    case DType::kU8:
      return StoredType::kU8;
  }
  TESSERA_CHECK(false, "dtype {}", static_cast<int>(type));
  return StoredType::kF32;
}

int64_t size_bits(StoredType type) { return row(type).bits; }

std::optional<int64_t> tensor_bytes(StoredType type, std::span<const int64_t> shape) {
  int64_t bits = size_bits(type);
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(bits, dim, &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

bool is_readable(StoredType type) { return row(type).reading != Reading::kNone; }
bool is_integer(StoredType type) { return row(type).reading == Reading::kInteger; }

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in a float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  // Infinity and NaN keep the all-ones exponent; the others move from bias 15 to bias 127.
  const uint32_t wide = exponent == 0x1fU ? 0xffU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

void decode(StoredType type, std::span<const std::byte> bytes, std::span<double> out) {
  decode_any(type, bytes, out);
}

void decode(StoredType type, std::span<const std::byte> bytes, std::span<float> out) {
  decode_any(type, bytes, out);
}

void decode(StoredType type, std::span<const std::byte> bytes, std::span<int64_t> out) {
  TESSERA_CHECK(is_integer(type), "decode of {} to int64", name_of(type));
  decode_any(type, bytes, out);
}

}  // namespace tessera
