#include "serve/batch/page_key.h"

#include <bit>
#include <string>

#include "base/sha256.h"

namespace tessera::serve {

PageKey root_key(std::string_view salt) { return sha256(salt); }

PageKey page_key(const PageKey& parent, std::span<const int32_t> tokens) {
  static_assert(std::endian::native == std::endian::little);
  std::string text(parent.size() + tokens.size_bytes(), '\0');
  std::memcpy(text.data(), parent.data(), parent.size());
  std::memcpy(text.data() + parent.size(), tokens.data(), tokens.size_bytes());
  return sha256(text);
}

}  // namespace tessera::serve
