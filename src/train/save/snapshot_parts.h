// Parts of a snapshot that other hosts keep: they go over the connections of the ranks, from each
// rank that has them in its memory to those that want them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace tessera {

// Bytes of the copy of another rank.
struct WantedPart {
  int rank = 0;
  int64_t first = 0;
  int64_t bytes = 0;
  std::function<void(const std::byte* data)> take;
};

// What a rank asks for at a time; a part that is larger goes alone.
inline constexpr int64_t kPartsAtOnce = int64_t{16} << 20;

// All ranks: gets what this one wants, and gives the others what they want of `mine`.
void exchange_parts(Communicator& control, const std::vector<WantedPart>& wanted,
                    std::span<const std::byte> mine, int64_t at_once = kPartsAtOnce);

}  // namespace tessera
