#include "serve/sample/cut.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace tessera::serve {
namespace {

bool is_before(const RowEntry& a, const RowEntry& b) { return a.before(b); }

// The `count` first entries of a row, in any order, the last of them at the end of `found`. Holds
// twice as many at most: where there are more, the later half goes, and its first one is a bound
// for all that follow.
void gather_first(std::span<const double> values, size_t count, std::vector<RowEntry>& found) {
  constexpr size_t kAtLeast = 64;
  const size_t room = std::max(2 * count, kAtLeast);
  found.clear();
  double bound = -HUGE_VAL;
  for (size_t i = 0; i < values.size(); ++i) {
    // Equal ones with higher ids, which come later, lose.
    if (values[i] <= bound) continue;
    found.push_back({values[i], static_cast<int32_t>(i)});
    if (found.size() < room) continue;
    std::nth_element(found.begin(), found.begin() + static_cast<int64_t>(count) - 1, found.end(),
                     is_before);
    found.resize(count);
    bound = found.back().value;
  }
  if (found.size() > count) {
    std::nth_element(found.begin(), found.begin() + static_cast<int64_t>(count) - 1, found.end(),
                     is_before);
    found.resize(count);
  }
}

// Bins of an eighth; what is below the last has no whole step.
constexpr double kBinsPerUnit = 8;
constexpr size_t kBins = static_cast<size_t>(kBinsPerUnit) * 46;
size_t bin_of(double value) { return static_cast<size_t>(-value * kBinsPerUnit); }

// Shares as whole numbers, so that no order of addition changes a sum: the sum of a row is below
// 2^62.
class Steps {
 public:
  explicit Steps(size_t vocab)
      : scale_(std::ldexp(1.0, 62 - static_cast<int>(std::bit_width(vocab)))) {}
  [[nodiscard]] uint64_t of(double weight) const {
    return static_cast<uint64_t>(static_cast<int64_t>(weight * scale_ + 0.5));
  }

 private:
  double scale_;
};

}  // namespace

void find_first(std::span<const double> values, int64_t count, std::vector<RowEntry>& found) {
  const auto wanted = std::min(static_cast<size_t>(std::max<int64_t>(count, 0)), values.size());
  found.clear();
  if (wanted == 0) return;
  gather_first(values, wanted, found);
  std::sort(found.begin(), found.end(), is_before);
}

void CutFinder::keep_first(std::span<const double> values, int64_t top_k, Cut& cut) {
  if (top_k <= 0 || static_cast<size_t>(top_k) >= values.size()) return;
  gather_first(values, static_cast<size_t>(top_k), entries_);
  if (entries_.size() < static_cast<size_t>(top_k)) return;  // the others are -Inf
  const RowEntry last = *std::max_element(entries_.begin(), entries_.end(), is_before);
  cut = {last.value, last.id};
}

void CutFinder::keep_share(std::span<const double> values, std::span<const double> weights,
                           double share, Cut& cut) {
  const Steps steps(values.size());
  steps_of_bin_.assign(kBins, 0);
  constexpr double kLeast = -static_cast<double>(kBins) / kBinsPerUnit;
  const double least = std::max(cut.least, std::nextafter(kLeast, 0.0));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < least || !cut.keeps(values[i], static_cast<int32_t>(i))) continue;
    steps_of_bin_[bin_of(values[i])] += steps.of(weights[i]);
  }
  uint64_t all = 0;
  for (const uint64_t bin : steps_of_bin_) all += bin;
  const double wanted = share * static_cast<double>(all);
  const auto enough = [&](uint64_t sum) { return static_cast<double>(sum) >= wanted; };

  uint64_t sum = 0;
  size_t bin = 0;
  while (bin + 1 < kBins && !enough(sum + steps_of_bin_[bin])) sum += steps_of_bin_[bin++];
  entries_.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (values[i] < least || bin_of(values[i]) != bin || !cut.keeps(values[i], id)) continue;
    entries_.push_back({values[i], id});
  }
  TESSERA_CHECK(!entries_.empty(), "no token has the share {} of its row", share);
  // Halve the bin: the place is in the first half where that has enough, else behind it.
  auto begin = entries_.begin(), end = entries_.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, is_before);
    uint64_t first_half = 0;
    for (auto entry = begin; entry < middle; ++entry) {
      first_half += steps.of(weights[static_cast<size_t>(entry->id)]);
    }
    if (enough(sum + first_half)) {
      end = middle;
    } else {
      sum += first_half;
      begin = middle;
    }
  }
  cut = {begin->value, begin->id};
}

}  // namespace tessera::serve
