// How the next token of a text is chosen from its logits. The order is: logit_bias; repetition,
// presence and frequency penalties; temperature; top_k; top_p; min_p; one draw. The draw is a pure
// function of (seed, choice, position, token), so it does not depend on what else runs.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tessera::serve {

struct Sampling {
  double temperature = 1;         // 0: the likeliest token; of equal ones that of the lowest id
  int64_t top_k = 0;              // 0: all
  double top_p = 1;               // the likeliest tokens that together have this share
  double min_p = 0;               // as likely as this share of the likeliest, at least
  double presence_penalty = 0;    // taken from tokens that the answer has
  double frequency_penalty = 0;   // the same, for each time that it has them
  double repetition_penalty = 1;  // divides or multiplies what prompt or answer have
  std::vector<std::pair<int32_t, double>> logit_bias = {};
  uint64_t seed = 0;
  int logprobs = -1;  // -1: none; n: that of the chosen token, and of the n likeliest

  [[nodiscard]] bool has_penalties() const {
    return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1;
  }
};

// A token of prompt or answer, for penalties.
struct TokenCount {
  int32_t token = 0;
  int32_t in_answer = 0;  // times; 0: only the prompt has it
};

// One row of logits, and what its token is chosen by.
struct RowSampling {
  std::shared_ptr<const Sampling> how;  // never null
  uint32_t choice = 0;                  // of the n answers to a request
  int64_t position = 0;                 // of the token that is chosen, in its text
  std::vector<TokenCount> counts = {};  // where there are penalties
  std::vector<uint32_t> allowed = {};   // a bit for each token of the vocabulary; empty: all
};

struct TokenLogprob {
  int32_t token = 0;
  double logprob = 0;
};

struct SampledToken {
  int32_t token = 0;
  double logprob = 0;                  // of the model, before temperature and all that follows it
  std::vector<TokenLogprob> top = {};  // the likeliest first
  bool finite = true;                  // false: logits were NaN or Inf, and the token means nothing
};

}  // namespace tessera::serve
