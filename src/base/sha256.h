// SHA-256 (FIPS 180-4): what names contents, on the web and in checkpoints.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

std::array<uint8_t, 32> sha256(std::string_view text);
std::string sha256_hex(std::string_view text);  // 64 lower-case digits

}  // namespace tessera
