// What a model says of texts: the log-probability of every token, given those before it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "train/verify/model_folder.h"

namespace tessera {

// log softmax(logits)[token].
double log_probability(std::span<const float> logits, int32_t token);

class Scorer {
 public:
  explicit Scorer(const ModelFolder& folder) : folder_(folder) {}

  // on_text(i, log-probabilities): of every token of text i but its first. Texts have at least two
  // tokens and at most one more than a sequence (spec.train.seq_len + 1): the last is only
  // predicted. They come in the order of their lengths, because programs are compiled for one
  // length each. Throws Error with ExitCode::kDiverged for logits that are not finite.
  using OnText = std::function<void(size_t text, std::span<const double> log_probabilities)>;
  void score(std::span<const std::vector<int32_t>> texts, const OnText& on_text) const;

 private:
  const ModelFolder& folder_;
};

}  // namespace tessera
