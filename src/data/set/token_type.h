// What a token is stored as, always little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tessera {

enum class TokenType : uint8_t { kU8, kI8, kI16, kU16, kI32, kU32, kI64 };

std::string_view name_of(TokenType type);  // "u16"
std::optional<TokenType> token_type_named(std::string_view name);
int64_t bytes_of(TokenType type);

// The token at `index`; -1 for one that is negative or beyond 2^31 - 1.
int32_t read_token(const std::byte* tokens, TokenType type, int64_t index);
// tokens[first...] for all of `out`. False where one of them is such a -1.
bool read_tokens(const std::byte* tokens, TokenType type, int64_t first, std::span<int32_t> out);

// Numbers of files, which need not be aligned there.
uint64_t read_u64(const std::byte* at);
int64_t read_i64(const std::byte* at);
int32_t read_i32(const std::byte* at);

}  // namespace tessera
