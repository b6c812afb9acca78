// Ranks as people write them.
#pragma once

#include <span>
#include <string>

namespace tessera {

// "rank 2", "ranks 0-3 and 6"; `ranks` ascend.
std::string rank_list(std::span<const int> ranks);

}  // namespace tessera
