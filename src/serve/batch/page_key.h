// What a full page holds, as a name: SHA-256 of the key of the page before it and its token ids.
// The chain begins with SHA-256 of the salt, so requests of different salts never meet.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace tessera::serve {

using PageKey = std::array<uint8_t, 32>;

PageKey root_key(std::string_view salt);
PageKey page_key(const PageKey& parent, std::span<const int32_t> tokens);

struct PageKeyHash {
  size_t operator()(const PageKey& key) const {
    size_t value = 0;
    std::memcpy(&value, key.data(), sizeof(value));
    return value;
  }
};

}  // namespace tessera::serve
