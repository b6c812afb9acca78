// The next token of a text from its row of logits (serve/sampling.h says by what). Exact: top_k,
// top_p and min_p keep what a full sort of the row would, by value and then by lowest id, without
// sorting it.
//
//   log probabilities   of the model itself: of the raw logits, before bias, penalties, mask and
//                       temperature. Only where Sampling::logprobs asks for them, else 0.
//   top_p               shares are counted in whole steps of 2^-40 or less, so that their sums are
//                       exact: the same tokens are kept in whatever order they are added
//   the draw            argmax of x + Gumbel(seed, choice, position, token) over what was kept
//
// Each is a function of the whole row and of RowSampling alone: not of the other rows, of how tp
// cuts the vocabulary, or of the order in which anything is computed.
#pragma once

#include <span>

#include "serve/sampling.h"

namespace tessera::serve {

// `logits` are those of the vocabulary, without padding. The token means nothing, and `finite` is
// false, where one of them is NaN or Inf, or where `by.allowed` allows none. Throws Error where
// `by` names tokens that the vocabulary has not, or where its mask is not as long as it. Works in
// memory that each thread keeps: nothing is allocated for a row but the answer's likeliest tokens.
SampledToken sample(std::span<const double> logits, const RowSampling& by);
SampledToken sample(std::span<const float> logits, const RowSampling& by);

// A row that lies in parts, those of the first tokens first.
SampledToken sample(std::span<const std::span<const double>> parts, const RowSampling& by);
SampledToken sample(std::span<const std::span<const float>> parts, const RowSampling& by);

}  // namespace tessera::serve
