#include "base/text/ranks_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tessera {
namespace {

constexpr size_t kMostPieces = 3;

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  std::vector<std::string> pieces;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    pieces.push_back(first == last ? std::to_string(ranks[first])
                                   : fmt::format("{}-{}", ranks[first], ranks[last]));
    first = last + 1;
  }
  if (pieces.size() > kMostPieces) {
    return fmt::format("{} ranks from {}", ranks.size(), ranks.front());
  }
  return fmt::format("ranks {}", fmt::join(pieces, ", "));
}

}  // namespace tessera
