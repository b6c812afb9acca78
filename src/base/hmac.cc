#include "base/hmac.h"

#include <array>
#include <cstdint>

#include "base/sha256.h"

namespace tessera {
namespace {

constexpr size_t kBlockBytes = 64;

std::string digest_of(const std::string& text) {
  const std::array<uint8_t, 32> digest = sha256(text);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string masked(const std::string& block, char mask) {
  std::string bytes = block;
  for (char& byte : bytes) byte = static_cast<char>(byte ^ mask);
  return bytes;
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::string block = key.size() > kBlockBytes ? digest_of(std::string(key)) : std::string(key);
  block.resize(kBlockBytes, '\0');
  const std::string inner = digest_of(masked(block, 0x36) + std::string(text));
  return digest_of(masked(block, 0x5c) + inner);
}

}  // namespace tessera
