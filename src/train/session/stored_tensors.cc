#include "train/session/stored_tensors.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "train/state/bucket_runs.h"

namespace tessera {

StoredReader::Tile& StoredReader::tile_of_this_thread() {
  const std::lock_guard lock(mutex_);
  return tiles_[std::this_thread::get_id()];  // references into a map stay valid
}

void StoredReader::fill(Tile& tile, const LogicalTensor& tensor, int64_t row) const {
  constexpr int64_t kRows = 64;
  const StoredTensor& stored = tensor.stored;
  const int64_t cols = tensor.cols();
  TESSERA_CHECK(stored.row_step == 1, "'{}' is neither stored by rows nor by columns", tensor.name);
  tile.tensor = tensor.name;
  tile.first_row = row / kRows * kRows;
  tile.num_rows = std::min(kRows, tensor.rows() - tile.first_row);
  tile.values.resize(static_cast<size_t>(tile.num_rows * cols));
  std::vector<double> column(static_cast<size_t>(tile.num_rows));
  for (int64_t c = 0; c < cols; ++c) {
    read_(stored.name, stored.shape, stored.offset + tile.first_row + c * stored.col_step, column);
    for (int64_t r = 0; r < tile.num_rows; ++r) {
      tile.values[static_cast<size_t>(r * cols + c)] = column[static_cast<size_t>(r)];
    }
  }
}

void StoredReader::read(const LogicalTensor& tensor, int64_t first, std::span<double> out) {
  const StoredTensor& stored = tensor.stored;
  const int64_t cols = tensor.cols();
  const auto count = static_cast<int64_t>(out.size());
  for (int64_t at = 0; at < count;) {
    const int64_t row = (first + at) / cols;
    const int64_t col = (first + at) % cols;
    const int64_t length = std::min(cols - col, count - at);
    const auto part = out.subspan(static_cast<size_t>(at), static_cast<size_t>(length));
    if (stored.col_step == 1) {
      read_(stored.name, stored.shape, stored.offset + row * stored.row_step + col, part);
    } else {
      Tile& tile = tile_of_this_thread();
      const bool inside = tile.tensor == tensor.name && row >= tile.first_row &&
                          row < tile.first_row + tile.num_rows;
      if (!inside) fill(tile, tensor, row);
      const auto from = tile.values.begin() + (row - tile.first_row) * cols + col;
      std::copy(from, from + length, part.begin());
    }
    at += length;
  }
}

void put_into_stored(const LogicalTensor& tensor, std::span<const std::byte> whole,
                     int64_t element_bytes, std::span<std::byte> stored) {
  for_each_stored_run(tensor, [&](int64_t from, int64_t to, int64_t count) {
    std::memcpy(stored.data() + to * element_bytes, whole.data() + from * element_bytes,
                static_cast<size_t>(count * element_bytes));
  });
}

std::vector<StoredShape> stored_shapes(const ParameterLayout& layout) {
  std::vector<StoredShape> shapes;
  std::set<std::string> seen;
  for (const Bucket& bucket : layout.buckets) {
    for_each_tensor(bucket, [&](const LogicalTensor& t) {
      if (seen.insert(t.stored.name).second) shapes.push_back({t.stored.name, t.stored.shape});
    });
  }
  return shapes;
}

}  // namespace tessera
