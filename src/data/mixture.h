// Which of several sets each sample comes from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

// Weights become shares: after any number of samples every part has had its share of them, less or
// more than one sample. A pure function of the weights, evenly interleaved, which repeats after at
// most a million samples; memory does not grow with the sets. Immutable: any thread may ask.
class Mixture {
 public:
  // At least one, each above 0. Shares are exact where weights are numbers with at most six
  // decimals that repeat within a million samples (3 and 1; 0.7, 0.2 and 0.1), else rounded to
  // millionths. Throws ConfigError for a part with a share below that.
  explicit Mixture(std::span<const double> weights);

  struct Choice {
    int64_t part = 0;
    int64_t index = 0;  // of the part's own samples, counted from 0
  };
  [[nodiscard]] Choice at(int64_t sample) const;

  [[nodiscard]] int64_t parts() const { return std::ssize(shares_); }
  // Samples of a part in each period() samples.
  [[nodiscard]] int64_t share(int64_t part) const { return shares_[static_cast<size_t>(part)]; }
  [[nodiscard]] int64_t period() const { return std::ssize(choices_); }

 private:
  std::vector<int64_t> shares_;
  std::vector<uint16_t> choices_;  // of the samples of a period
  std::vector<int64_t> counts_;    // samples of each part before every kEvery-th
};

}  // namespace tessera
