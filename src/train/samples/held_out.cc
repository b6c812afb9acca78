#include "train/samples/held_out.h"

#include <algorithm>

#include "base/rounding.h"
#include "train/samples/chat_samples.h"
#include "train/samples/run_sets.h"

namespace tessera {
namespace {

// As much as says something, and no more than takes a moment to write.
constexpr int64_t kMostStories = 400'000;  // bytes

struct CountedSamples {
  Samples samples;
  int64_t count = 0;
};

// In the order of the text.
CountedSamples windows_of(const std::shared_ptr<const Corpus>& corpus, int64_t seq_len) {
  require_samples(*corpus, seq_len);
  const int64_t count = (corpus->size() - 1) / seq_len;
  const auto fill = [corpus](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
    const int64_t start = sample * std::ssize(tokens);
    for (size_t t = 0; t < tokens.size(); ++t) {
      tokens[t] = corpus->token_at(start + static_cast<int64_t>(t));
      labels[t] = corpus->token_at(start + static_cast<int64_t>(t) + 1);
    }
  };
  return {{fill, {}}, count};
}

CountedSamples other_stories(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  const int64_t bytes =
      std::max(spec.train.seq_len + 1, std::min(kMostStories, data.synth_bytes / 10));
  return windows_of(std::make_shared<Corpus>(Corpus::synthetic(data.synth_seed + 1, bytes)),
                    spec.train.seq_len);
}

CountedSamples set_windows(const RunSpec& spec, const std::string& path) {
  const std::shared_ptr<const TokenSet> set = validation_set(spec, path);
  const int64_t vocab = spec.model.vocab;
  const auto fill = [set, vocab](int64_t sample, std::span<int32_t> tokens,
                                 std::span<int32_t> labels) {
    const int64_t start = sample * std::ssize(tokens);
    set->copy(start, tokens, vocab);
    set->copy(start + 1, labels, vocab);
  };
  return {{fill, {}}, (set->size() - 1) / spec.train.seq_len};
}

CountedSamples chats(const RunSpec& spec, const std::string& path) {
  const auto read = std::make_shared<const ChatSamples>(spec, path);
  return {in_file_order(read), read->count()};
}

CountedSamples all_of(const RunSpec& spec, const std::string& path) {
  if (spec.data.is_sets()) return set_windows(spec, path);
  if (!spec.data.chats.empty()) return chats(spec, path);
  return windows_of(std::make_shared<Corpus>(Corpus::from_path(path)), spec.train.seq_len);
}

// As many as eval.batches lets in; what fills up the last batch is masked.
HeldOut limited(const RunSpec& spec, std::string name, CountedSamples all) {
  const int64_t batch = spec.train.global_batch;
  const int64_t most = ceil_div(all.count, batch);
  HeldOut result;
  result.name = std::move(name);
  result.batches = spec.eval.batches == 0 ? most : std::min(most, spec.eval.batches);
  const int64_t count = std::min(all.count, result.batches * batch);
  result.count = count;
  result.samples.fill = [fill = std::move(all.samples.fill), count](
                            int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
    fill(sample % count, tokens, labels);
    if (sample >= count) std::fill(labels.begin(), labels.end(), kMaskedLabel);
  };
  if (all.samples.starts) {
    result.samples.starts = [starts_of = std::move(all.samples.starts), count](
                                int64_t sample, std::span<int32_t> starts) {
      starts_of(sample % count, starts);
    };
  }
  return result;
}

}  // namespace

std::vector<HeldOut> held_out(const RunSpec& spec) {
  std::vector<HeldOut> sets;
  if (spec.eval.every == 0) return sets;
  for (const ValidSet& set : spec.data.valid) {
    sets.push_back(limited(spec, set.name, all_of(spec, set.path)));
  }
  if (sets.empty()) sets.push_back(limited(spec, "", other_stories(spec)));
  return sets;
}

}  // namespace tessera
