#include "checkpoint/box/runs.h"

#include <utility>

namespace tessera {

Placed placed_dense(Box box, int64_t first) {
  Placed placed{std::move(box), first, {}};
  placed.strides.resize(placed.box.dims());
  int64_t stride = 1;
  for (size_t d = placed.box.dims(); d-- > 0;) {
    placed.strides[d] = stride;
    stride *= placed.box.shape[d];
  }
  return placed;
}

int64_t place_of(const Placed& placed, std::span<const int64_t> index) {
  int64_t at = placed.first;
  for (size_t d = 0; d < index.size(); ++d) {
    at += (index[d] - placed.box.offset[d]) * placed.strides[d];
  }
  return at;
}

}  // namespace tessera
