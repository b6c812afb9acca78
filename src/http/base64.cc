#include "http/base64.h"

#include <algorithm>
#include <string_view>

namespace tessera::http {

std::string base64(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t have = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < have ? bytes[i + j] : 0U);
    for (size_t j = 0; j < 4; ++j) {
      text += j <= have ? kDigits[group >> (18 - j * 6) & 63] : '=';
    }
  }
  return text;
}

}  // namespace tessera::http
