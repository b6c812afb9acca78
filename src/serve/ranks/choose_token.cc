#include "serve/ranks/choose_token.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera::serve {
namespace {

// Only the likeliest token: serve/sample takes its place.
template <typename A>
SampledToken likeliest(const Tensor& logits, int64_t row, int64_t vocab) {
  SampledToken token;
  A top = 0;
  const int64_t columns = logits.dim(2);
  for (int64_t v = 0; v < vocab; ++v) {
    const A value = logits.as<A>()[(v / columns * logits.dim(1) + row) * columns + v % columns];
    token.finite = token.finite && std::isfinite(value);
    if (v > 0 && !(value > top)) continue;
    top = value;
    token.token = static_cast<int32_t>(v);
  }
  return token;
}

}  // namespace

SampledToken choose_token(const Tensor& logits, int64_t row, int64_t vocab, const RowSampling& by) {
  require(by.how != nullptr && by.how->temperature == 0 && by.how->logprobs < 0,
          "only temperature = 0 is there");
  return logits.dtype == DType::kF64 ? likeliest<double>(logits, row, vocab)
                                     : likeliest<float>(logits, row, vocab);
}

}  // namespace tessera::serve
