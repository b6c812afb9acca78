// Boxes in memory: where their elements lie, and which stretches two layouts have in common. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/box/box.h"

namespace tessera {

// Where the elements of a box lie in some memory: element `index` of the tensor is at
// first + sum of (index[d] - box.offset[d]) * strides[d], counted in elements. The last stride is 1
// wherever that dim has more than one element, so that rows are contiguous.
struct Placed {
  Box box;
  int64_t first = 0;
  std::vector<int64_t> strides;
};

// Row by row without gaps, as files have it.
Placed placed_dense(Box box, int64_t first = 0);
int64_t place_of(const Placed& placed, std::span<const int64_t> index);

// Calls f(first element in `a`, first element in `b`, count) for all stretches of the box that `a`
// and `b` have in common that are contiguous in both, in row-major order. Dims that both hold
// without gaps are joined, so that a whole chunk is one stretch. `common` must lie in both boxes.
template <typename F>
void for_each_common_run(const Placed& a, const Placed& b, const Box& common, const F& f) {
  const size_t dims = common.dims();
  // The trailing dims that form one contiguous stretch in both.
  size_t outer = dims;
  int64_t length = 1;
  while (outer > 0) {
    const size_t d = outer - 1;
    const bool flat = common.shape[d] == 1 || (a.strides[d] == length && b.strides[d] == length);
    if (!flat) break;
    length *= common.shape[d];
    --outer;
  }
  std::vector<int64_t> index = common.offset;
  for (;;) {
    f(place_of(a, index), place_of(b, index), length);
    size_t d = outer;
    while (d > 0 && ++index[d - 1] == common.end(d - 1)) {
      index[d - 1] = common.offset[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace tessera
