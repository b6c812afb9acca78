#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tessera::http {

// With padding.
std::string base64(std::span<const uint8_t> bytes);

}  // namespace tessera::http
