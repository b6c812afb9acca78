// CRC-32C (Castagnoli's polynomial): of "123456789" it is 0xE3069283. Finds accidents, not forgers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tessera {

// The sum of `bytes` that follow others whose sum is `before`. Uses the processor's instruction
// where there is one, on three stretches at a time: the instruction takes three cycles, but one can
// begin in each.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
uint32_t crc32c(std::string_view text);

// The same by tables, on any processor.
uint32_t crc32c_by_tables(std::span<const std::byte> bytes, uint32_t before = 0);

// Copies `from` to `to`, which must not overlap it, and returns crc32c(from, before). The bytes are
// summed while they are in the cache, so that memory is read once.
uint32_t copy_with_crc32c(std::byte* to, std::span<const std::byte> from, uint32_t before = 0);

}  // namespace tessera
