// The token of one row of logits, on the rank that samples.
#pragma once

#include <cstdint>

#include "serve/sampling.h"
#include "tensor/tensor.h"

namespace tessera::serve {

// `logits`: [parts, rows, columns], f32 or f64; `vocab` without padding.
SampledToken choose_token(const Tensor& logits, int64_t row, int64_t vocab, const RowSampling& by);

}  // namespace tessera::serve
