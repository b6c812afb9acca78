#include "train/session/held_out.h"

#include <algorithm>

#include "base/rounding.h"
#include "train/session/chat_samples.h"
#include "train/session/run_sets.h"

namespace tessera {
namespace {

// As much as says something, and no more than takes a moment to write.
constexpr int64_t kMostStories = 400'000;  // bytes

struct CountedSamples {
  SampleSource samples;
  int64_t count = 0;
};

// In the order of the text.
CountedSamples text_windows(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  const int64_t seq_len = spec.train.seq_len;
  const int64_t bytes = std::max(seq_len + 1, std::min(kMostStories, data.synth_bytes / 10));
  const auto corpus =
      std::make_shared<Corpus>(data.valid.empty() ? Corpus::synthetic(data.synth_seed + 1, bytes)
                                                  : Corpus::from_path(data.valid));
  require_samples(*corpus, seq_len);
  const int64_t count = (corpus->size() - 1) / seq_len;
  return {[corpus](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
            const int64_t start = sample * std::ssize(tokens);
            for (size_t t = 0; t < tokens.size(); ++t) {
              tokens[t] = corpus->token_at(start + static_cast<int64_t>(t));
              labels[t] = corpus->token_at(start + static_cast<int64_t>(t) + 1);
            }
          },
          count};
}

CountedSamples set_windows(const RunSpec& spec) {
  const std::shared_ptr<const TokenSet> set = validation_set(spec);
  const int64_t vocab = spec.model.vocab;
  return {[set, vocab](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
            const int64_t start = sample * std::ssize(tokens);
            set->copy(start, tokens, vocab);
            set->copy(start + 1, labels, vocab);
          },
          (set->size() - 1) / spec.train.seq_len};
}

CountedSamples chats(const RunSpec& spec) {
  const auto read = std::make_shared<ChatSamples>(spec, spec.data.valid);
  return {[read](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
            read->fill(sample, tokens, labels);
          },
          read->count()};
}

}  // namespace

HeldOut held_out(const RunSpec& spec) {
  HeldOut result;
  if (spec.eval.every == 0) return result;
  CountedSamples all = spec.data.is_sets()       ? set_windows(spec)
                       : spec.data.chats.empty() ? text_windows(spec)
                                                 : chats(spec);
  const int64_t batch = spec.train.global_batch;
  const int64_t most = ceil_div(all.count, batch);
  result.batches = spec.eval.batches == 0 ? most : std::min(most, spec.eval.batches);
  result.count = std::min(all.count, result.batches * batch);
  result.samples = [all = std::move(all.samples), count = result.count](
                       int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
    all(sample % count, tokens, labels);
    if (sample >= count) std::fill(labels.begin(), labels.end(), kMaskedLabel);
  };
  return result;
}

}  // namespace tessera
