// Which tokens of a row are kept: a place in the row's order, by value and of equal ones by lowest
// id, and all that is not behind it. Found by halving and by counting in bins, not by sorting.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tessera::serve {

// The last token that is kept. The values of a row are at most 0, and one is 0.
struct Cut {
  double least = -std::numeric_limits<double>::infinity();
  int32_t last_id = std::numeric_limits<int32_t>::max();  // of those whose value is `least`
  [[nodiscard]] bool keeps(double value, int32_t id) const {
    return value > least || (value == least && id <= last_id);
  }
};

struct RowEntry {
  double value = 0;
  int32_t id = 0;
  // Whether this one comes first.
  [[nodiscard]] bool before(const RowEntry& other) const {
    return value > other.value || (value == other.value && id < other.id);
  }
};

// The `count` first entries of a row, in their order, into `found`.
void find_first(std::span<const double> values, int64_t count, std::vector<RowEntry>& found);

class CutFinder {
 public:
  // Keeps the first `top_k`, if there are more.
  void keep_first(std::span<const double> values, int64_t top_k, Cut& cut);
  // Keeps of those that `cut` keeps the fewest first ones that have `share` of their sum.
  // weights[i] is e^values[i].
  void keep_share(std::span<const double> values, std::span<const double> weights, double share,
                  Cut& cut);

 private:
  std::vector<RowEntry> entries_;
  std::vector<uint64_t> steps_of_bin_;
};

}  // namespace tessera::serve
