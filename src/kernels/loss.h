// The loss of the model.
#pragma once

#include "kernels/context.h"

namespace tessera::kernels {

// ---- cross entropy over a vocabulary that may be split ----
// logits[T,V] of rows [first_row, first_row + valid); columns >= valid are padding and are ignored.
// stats[T,3] in the accumulate type: max, sum of exp(x - max), logit of the label (0 if elsewhere
// or masked, label < 0). With valid == 0: max = -inf, sum = 0.
void cross_entropy_stats(Context& ctx, const Tensor& logits, const Tensor& labels, Tensor& stats,
                         int64_t first_row, int64_t valid);
// all_stats[G,T,3] of the G vocabulary parts. loss[1] (f64) (+)= sum over unmasked tokens of
// log sum exp - label logit. Labels outside the vocabulary are the caller's error.
void cross_entropy_loss(Context& ctx, const Tensor& all_stats, const Tensor& labels, Tensor& loss,
                        bool accumulate);
// d_logits = (softmax - one-hot) times the loss scale of ctx.params for unmasked tokens, zero for
// masked ones and padding columns. d_logits may be logits.
void cross_entropy_grad(Context& ctx, const Tensor& logits, const Tensor& all_stats,
                        const Tensor& labels, Tensor& d_logits, int64_t first_row, int64_t valid);

}  // namespace tessera::kernels
