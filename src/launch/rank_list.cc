#include "launch/rank_list.h"

#include <fmt/format.h>

#include <vector>

namespace tessera {

std::string rank_list(std::span<const int> ranks) {
  std::vector<std::string> runs;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    runs.push_back(first == last ? std::to_string(ranks[first])
                                 : fmt::format("{}-{}", ranks[first], ranks[last]));
    first = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i > 0) text += i + 1 == runs.size() ? " and " : ", ";
    text += runs[i];
  }
  return text;
}

}  // namespace tessera
