// SHA-256 (FIPS 180-4), for what the web names by it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::http {

std::array<uint8_t, 32> sha256(std::string_view text);

// With padding.
std::string base64(std::span<const uint8_t> bytes);

}  // namespace tessera::http
