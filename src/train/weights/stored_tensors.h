// Between the tensors that training knows and the way that Hugging Face files keep them: under
// shared names, side by side, transposed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compile/model/parameters.h"

namespace tessera {

// Calls f(first element of the logical tensor, first element of the stored one, count) for all its
// stretches that are contiguous in both.
template <typename F>
void for_each_stored_run(const LogicalTensor& tensor, const F& f) {
  const StoredTensor& stored = tensor.stored;
  const int64_t rows = tensor.rows(), cols = tensor.cols();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t to = stored.offset + row * stored.row_step;
    if (stored.col_step == 1) {
      f(row * cols, to, cols);
      continue;
    }
    for (int64_t col = 0; col < cols; ++col) f(row * cols + col, to + col * stored.col_step, 1);
  }
}

// Puts the bytes of a logical tensor, row by row, where its file wants them.
void put_into_stored(const LogicalTensor& tensor, std::span<const std::byte> whole,
                     int64_t element_bytes, std::span<std::byte> stored);

// All stored tensors, each once, in the order of the model.
struct StoredShape {
  std::string name;
  Shape shape;
};
std::vector<StoredShape> stored_shapes(const ParameterLayout& layout);

}  // namespace tessera
