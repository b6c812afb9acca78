// Which text is used when. A pure function of (seed, sample index): the same for every mesh, and a
// resumed run needs to know only how many samples were used.
#pragma once

#include <cstdint>
#include <span>

#include "data/corpus.h"

namespace tessera {

// Cuts the tokens into windows of seq_len that do not overlap (each also reads one more token, the
// last label) and visits every window exactly once per epoch, in an order drawn per epoch. Tokens
// after the last whole window are never used.
class Sampler {
 public:
  // Needs seq_len > 0 and num_tokens >= seq_len + 1 (require_samples).
  Sampler(int64_t num_tokens, int64_t seq_len, uint64_t seed);

  // First token of the sample's window; the index counts from 0 through all epochs.
  [[nodiscard]] int64_t sample_start(int64_t global_sample_index) const;

  [[nodiscard]] int64_t samples_per_epoch() const { return num_windows_; }
  [[nodiscard]] int64_t seq_len() const { return seq_len_; }

 private:
  [[nodiscard]] uint64_t permute(uint64_t position, uint64_t epoch) const;

  int64_t seq_len_;
  int64_t num_windows_;
  int half_bits_;  // the Feistel network permutes numbers of 2 * half_bits_ bits
  uint64_t key_;
};

// tokens[t] = x[t] and labels[t] = x[t + 1] of sample `index`; both spans hold seq_len values.
void fill_sample(const Corpus& corpus, const Sampler& sampler, int64_t index,
                 std::span<int32_t> tokens, std::span<int32_t> labels);

}  // namespace tessera
