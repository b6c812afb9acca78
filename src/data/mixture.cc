#include "data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int64_t kLongestPeriod = 1'000'000;
constexpr int64_t kMostParts = 1000;
constexpr int64_t kEvery = 256;

std::vector<int64_t> reduced(std::vector<int64_t> shares) {
  int64_t common = 0;
  for (const int64_t share : shares) common = std::gcd(common, share);
  for (int64_t& share : shares) share /= std::max<int64_t>(1, common);
  return shares;
}

int64_t sum_of(const std::vector<int64_t>& shares) {
  return std::accumulate(shares.begin(), shares.end(), int64_t{0});
}

// The weights as whole numbers; empty where they are none with six decimals, or too large.
std::vector<int64_t> exact_shares(std::span<const double> weights) {
  std::vector<int64_t> shares;
  for (const double weight : weights) {
    const double millionths = weight * 1e6;
    const double whole = std::round(millionths);
    if (!(whole >= 1 && whole <= 1e12) || std::abs(millionths - whole) > whole * 1e-12) return {};
    shares.push_back(static_cast<int64_t>(whole));
  }
  shares = reduced(std::move(shares));
  return sum_of(shares) <= kLongestPeriod ? shares : std::vector<int64_t>();
}

std::vector<int64_t> rounded_shares(std::span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> shares;
  for (const double weight : weights) {
    shares.push_back(std::llround(weight / total * static_cast<double>(kLongestPeriod)));
    require_config(shares.back() >= 1,
                   "a weight of {} among weights that add up to {} is less than a millionth of "
                   "the samples: leave the set out, or give it more",
                   weight, total);
  }
  return reduced(std::move(shares));
}

}  // namespace

// The chairman assignment (Tijdeman 1980): of the parts that have had so little that one more
// sample is not too early, the one that would soonest have had too little.
Mixture::Mixture(std::span<const double> weights) {
  const int64_t parts = std::ssize(weights);
  require_config(parts >= 1 && parts <= kMostParts, "a mixture of {} sets: use 1 to {}", parts,
                 kMostParts);
  for (const double weight : weights) {
    require_config(weight > 0 && weight < 1e12, "a set of a mixture has weight {}: use more than 0",
                   weight);
  }
  shares_ = exact_shares(weights);
  if (shares_.empty()) shares_ = rounded_shares(weights);
  const int64_t period = sum_of(shares_);
  const int64_t slack = std::max<int64_t>(2, 2 * parts - 2);  // 1 / slack of a sample
  std::vector<int64_t> had(shares_.size());
  for (int64_t n = 1; n <= period; ++n) {
    if ((n - 1) % kEvery == 0) counts_.insert(counts_.end(), had.begin(), had.end());
    size_t chosen = shares_.size();
    int64_t chosen_deadline = 0;
    for (size_t i = 0; i < shares_.size(); ++i) {
      if ((n * shares_[i] - had[i] * period) * slack < period) continue;
      const int64_t deadline = (had[i] + 1) * slack - 1;  // over the share
      const bool sooner =
          chosen == shares_.size() || deadline * shares_[chosen] < chosen_deadline * shares_[i];
      if (!sooner) continue;
      chosen = i;
      chosen_deadline = deadline;
    }
    TESSERA_CHECK(chosen < shares_.size(), "no part is due at sample {} of {}", n, period);
    choices_.push_back(static_cast<uint16_t>(chosen));
    ++had[chosen];
  }
  TESSERA_CHECK(had == shares_, "a period does not give every part its share");
}

Mixture::Choice Mixture::at(int64_t sample) const {
  TESSERA_CHECK(sample >= 0, "sample {}", sample);
  const int64_t position = sample % period();
  const uint16_t part = choices_[static_cast<size_t>(position)];
  const int64_t block = position / kEvery;
  int64_t index =
      sample / period() * shares_[part] + counts_[static_cast<size_t>(block * parts() + part)];
  for (int64_t i = block * kEvery; i < position; ++i) {
    index += choices_[static_cast<size_t>(i)] == part ? 1 : 0;
  }
  return {part, index};
}

}  // namespace tessera
