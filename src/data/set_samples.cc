#include "data/set_samples.h"

#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

// So that two sets of one size are not read in one order.
constexpr uint64_t kSeedStep = 0x9E3779B97F4A7C15;

std::vector<double> weights_of(const std::vector<WeightedSet>& sets) {
  std::vector<double> weights;
  for (const WeightedSet& one : sets) weights.push_back(one.weight);
  return weights;
}

}  // namespace

void require_set_samples(const TokenSet& set, int64_t seq_len) {
  require_config(set.documents() > 0,
                 "data '{}' has no documents: prepare it again with more text, or leave it out",
                 set.name());
  require_samples(set.name(), set.size(), seq_len);
}

SetSamples::SetSamples(std::vector<WeightedSet> sets, int64_t seq_len, uint64_t seed, int64_t vocab)
    : sets_(std::move(sets)), mixture_(weights_of(sets_)), vocab_(vocab) {
  for (const WeightedSet& one : sets_) {
    require_set_samples(*one.set, seq_len);
    samplers_.emplace_back(one.set->size(), seq_len, seed + kSeedStep * samplers_.size());
  }
}

void SetSamples::fill(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) const {
  const Mixture::Choice choice = mixture_.at(sample);
  const auto part = static_cast<size_t>(choice.part);
  const Sampler& sampler = samplers_[part];
  TESSERA_CHECK(std::ssize(tokens) == sampler.seq_len() && tokens.size() == labels.size(),
                "{} tokens and {} labels for seq_len {}", tokens.size(), labels.size(),
                sampler.seq_len());
  const int64_t start = sampler.sample_start(choice.index);
  sets_[part].set->copy(start, tokens, vocab_);
  sets_[part].set->copy(start + 1, labels, vocab_);
}

}  // namespace tessera
