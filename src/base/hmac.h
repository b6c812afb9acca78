// HMAC-SHA-256 (RFC 2104): that whoever sent a text knows a secret.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

std::string hmac_sha256(std::string_view key, std::string_view text);  // 32 bytes

}  // namespace tessera
