// Between the tensors that training knows and the way that Hugging Face files keep them: under
// shared names, side by side, transposed.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "compile/model/parameters.h"

namespace tessera {

// Elements [first, first + out.size()) of a stored tensor, after checking its shape.
using StoredRange = std::function<void(const std::string& name, const Shape& shape, int64_t first,
                                       std::span<double> out)>;

// Reads logical tensors from stored ones. Thread-safe if the given function is.
class StoredReader {
 public:
  explicit StoredReader(StoredRange read) : read_(std::move(read)) {}

  // Elements [first, first + out.size()) of the logical tensor, row-major.
  void read(const LogicalTensor& tensor, int64_t first, std::span<double> out);

 private:
  // Some rows of a transposed tensor: read column by column, used row by row.
  struct Tile {
    std::string tensor;
    int64_t first_row = 0;
    int64_t num_rows = 0;
    std::vector<double> values;
  };
  void fill(Tile& tile, const LogicalTensor& tensor, int64_t row) const;
  Tile& tile_of_this_thread();

  StoredRange read_;
  std::mutex mutex_;
  std::map<std::thread::id, Tile> tiles_;  // a rank reads in its own order
};

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
