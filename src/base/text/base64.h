// Bytes as text of 64 letters (RFC 4648, section 4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

// With padding.
std::string base64(std::span<const uint8_t> bytes);

// The bytes of a text with padding; nothing for any other text: blanks, missing padding, bits that
// stand for no byte and are not zero.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace tessera
