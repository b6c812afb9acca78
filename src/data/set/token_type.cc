#include "data/set/token_type.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "files are read as they are");

namespace {

constexpr std::array<std::pair<TokenType, std::string_view>, 7> kTokenTypes = {
    {{TokenType::kU8, "u8"},
     {TokenType::kI8, "i8"},
     {TokenType::kI16, "i16"},
     {TokenType::kU16, "u16"},
     {TokenType::kI32, "i32"},
     {TokenType::kU32, "u32"},
     {TokenType::kI64, "i64"}}};

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
bool read_all(const std::byte* tokens, int64_t first, std::span<int32_t> out) {
  const std::byte* at = tokens + first * static_cast<int64_t>(sizeof(T));
  bool valid = true;
  for (int32_t& token : out) {
    const auto value = static_cast<int64_t>(load<T>(at));
    const bool fits = value >= 0 && value <= std::numeric_limits<int32_t>::max();
    token = fits ? static_cast<int32_t>(value) : -1;
    valid = valid && fits;
    at += sizeof(T);
  }
  return valid;
}

}  // namespace

std::string_view name_of(TokenType type) {
  for (const auto& [known, name] : kTokenTypes) {
    if (known == type) return name;
  }
  TESSERA_CHECK(false, "token type {}", static_cast<int>(type));
  return "";
}

std::optional<TokenType> token_type_named(std::string_view name) {
  for (const auto& [type, known] : kTokenTypes) {
    if (known == name) return type;
  }
  return std::nullopt;
}

int64_t bytes_of(TokenType type) {
  switch (type) {
    case TokenType::kU8:
    case TokenType::kI8:
      return 1;
    case TokenType::kI16:
    case TokenType::kU16:
      return 2;
    case TokenType::kI32:
    case TokenType::kU32:
      return 4;
    case TokenType::kI64:
      return 8;
  }
  TESSERA_CHECK(false, "token type {}", static_cast<int>(type));
  return 0;
}

int32_t read_token(const std::byte* tokens, TokenType type, int64_t index) {
  int32_t token = 0;
  (void)read_tokens(tokens, type, index, {&token, 1});
  return token;
}

bool read_tokens(const std::byte* tokens, TokenType type, int64_t first, std::span<int32_t> out) {
  switch (type) {
    case TokenType::kU8:
      return read_all<uint8_t>(tokens, first, out);
    case TokenType::kI8:
      return read_all<int8_t>(tokens, first, out);
    case TokenType::kI16:
      return read_all<int16_t>(tokens, first, out);
    case TokenType::kU16:
      return read_all<uint16_t>(tokens, first, out);
    case TokenType::kI32:
      return read_all<int32_t>(tokens, first, out);
    case TokenType::kU32:
      return read_all<uint32_t>(tokens, first, out);
    case TokenType::kI64:
      return read_all<int64_t>(tokens, first, out);
  }
  TESSERA_CHECK(false, "token type {}", static_cast<int>(type));
  return false;
}

uint64_t read_u64(const std::byte* at) { return load<uint64_t>(at); }
int64_t read_i64(const std::byte* at) { return load<int64_t>(at); }
int32_t read_i32(const std::byte* at) { return load<int32_t>(at); }

}  // namespace tessera
