// Samples of sets of tokens: documents one after another, cut into windows, in an order of their
// own for each epoch, and several sets by weight.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/mixture.h"
#include "data/sampler.h"
#include "data/set/token_set.h"

namespace tessera {

struct WeightedSet {
  std::shared_ptr<const TokenSet> set;
  double weight = 1;
};

// Throws ConfigError for a set without documents, or with fewer tokens than a sample needs.
void require_set_samples(const TokenSet& set, int64_t seq_len);

// What sample n is depends on (sets, weights, seq_len, seed, n) alone. Immutable: any thread may
// ask.
class SetSamples {
 public:
  // At least one set. `vocab`: of the model.
  SetSamples(std::vector<WeightedSet> sets, int64_t seq_len, uint64_t seed, int64_t vocab);

  // tokens[t] = x[t] and labels[t] = x[t + 1]; both spans hold seq_len values. Allocates nothing.
  // Throws ConfigError with the place of an id that is not below the vocabulary.
  void fill(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) const;

 private:
  std::vector<WeightedSet> sets_;
  std::vector<Sampler> samplers_;
  Mixture mixture_;
  int64_t vocab_;
};

}  // namespace tessera
