// For tests: files built byte by byte.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::testing {

inline std::string little_endian(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xffU);
  return bytes;
}

// A safetensors file as the format says, from any header and data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return little_endian(header.size()) + header + data;
}

}  // namespace tessera::testing
