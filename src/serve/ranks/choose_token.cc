#include "serve/ranks/choose_token.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "serve/sample/sampler.h"

namespace tessera::serve {
namespace {

// A row lies in as many parts as ranks split the head, the last of them perhaps padded.
template <typename A>
SampledToken choose(const Tensor& logits, int64_t row, int64_t vocab, const RowSampling& by) {
  const int64_t columns = logits.dim(2);
  std::vector<std::span<const A>> parts;
  for (int64_t part = 0; part * columns < vocab; ++part) {
    const A* first = logits.as<A>() + (part * logits.dim(1) + row) * columns;
    parts.emplace_back(first, static_cast<size_t>(std::min(columns, vocab - part * columns)));
  }
  return sample(std::span<const std::span<const A>>(parts), by);
}

}  // namespace

SampledToken choose_token(const Tensor& logits, int64_t row, int64_t vocab, const RowSampling& by) {
  TESSERA_CHECK(logits.dtype == DType::kF64 || logits.dtype == DType::kF32,
                "logits are {}, not f64 or f32", name_of(logits.dtype));
  return logits.dtype == DType::kF64 ? choose<double>(logits, row, vocab, by)
                                     : choose<float>(logits, row, vocab, by);
}

}  // namespace tessera::serve
