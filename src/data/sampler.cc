#include "data/sampler.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"

namespace tessera {
namespace {

// Small domains (a handful of windows) need more than the usual four rounds to look shuffled.
constexpr uint32_t kRounds = 8;

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

Sampler::Sampler(int64_t num_tokens, int64_t seq_len, uint64_t seed)
    : seq_len_(seq_len), num_windows_(0), half_bits_(1), key_(seed + hash_name("sampler")) {
  TESSERA_CHECK(seq_len > 0, "seq_len is {}", seq_len);
  TESSERA_CHECK(num_tokens > seq_len, "{} tokens are too few for seq_len {}", num_tokens, seq_len);
  num_windows_ = (num_tokens - 1) / seq_len;
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(num_windows_ - 1)));
  half_bits_ = std::max(1, (bits + 1) / 2);
}

int64_t Sampler::sample_start(int64_t global_sample_index) const {
  TESSERA_CHECK(global_sample_index >= 0, "sample index {}", global_sample_index);
  const auto position = static_cast<uint64_t>(global_sample_index % num_windows_);
  const auto epoch = static_cast<uint64_t>(global_sample_index / num_windows_);
  return static_cast<int64_t>(permute(position, epoch)) * seq_len_;
}

// A Feistel network permutes [0, 4^half_bits_); walking its cycle until the value is below
// num_windows_ makes it a permutation of the windows. The domain is at most four times as large,
// so the walk is short, and it ends because the start lies on the cycle.
uint64_t Sampler::permute(uint64_t position, uint64_t epoch) const {
  const uint32_t mask = low((uint64_t{1} << half_bits_) - 1);
  uint64_t value = position;
  do {
    uint32_t left = low(value >> half_bits_);
    uint32_t right = low(value) & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto mixed = philox({right, round, low(epoch), high(epoch)}, {low(key_), high(key_)});
      const uint32_t next = (left ^ mixed[0]) & mask;
      left = right;
      right = next;
    }
    value = (static_cast<uint64_t>(left) << half_bits_) | right;
  } while (value >= static_cast<uint64_t>(num_windows_));
  return value;
}

void fill_sample(const Corpus& corpus, const Sampler& sampler, int64_t index,
                 std::span<int32_t> tokens, std::span<int32_t> labels) {
  const int64_t seq_len = sampler.seq_len();
  TESSERA_CHECK(std::ssize(tokens) == seq_len && std::ssize(labels) == seq_len,
                "{} tokens and {} labels for seq_len {}", tokens.size(), labels.size(), seq_len);
  const int64_t start = sampler.sample_start(index);
  TESSERA_CHECK(start + seq_len < corpus.size(), "sample {} starts at {} of {} tokens", index,
                start, corpus.size());
  for (int64_t t = 0; t < seq_len; ++t) {
    tokens[static_cast<size_t>(t)] = corpus.token_at(start + t);
    labels[static_cast<size_t>(t)] = corpus.token_at(start + t + 1);
  }
}

}  // namespace tessera
