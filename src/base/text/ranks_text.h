// A list of ranks in a few words.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// "rank 3", "ranks 0-3, 8-11"; of many pieces "8 ranks from 0". Ascending.
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace tessera
