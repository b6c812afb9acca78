#include "train/weights/load_from_disk.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/element.h"
#include "train/state/bucket_runs.h"

namespace tessera {
namespace {

// A rectangle of a tensor and where it goes in the memory of a bucket.
struct Rectangle {
  const LogicalTensor* tensor = nullptr;
  Piece piece;
  Tensor bucket;
};

WantedRows wanted_of(const Rectangle& one) {
  const Piece& piece = one.piece;
  const int64_t element = size_bytes(one.bucket.dtype);
  return {one.tensor,         piece.first_row,
          piece.num_rows,     piece.first_col,
          piece.num_cols,     one.bucket.as<std::byte>() + piece.bucket_offset * element,
          piece.bucket_stride};
}

// Rectangles whose type changes on the way: gathered until the staging area is full, then read at
// once.
class Converter {
 public:
  Converter(const WeightsOnDisk& weights, LoadFigures& figures)
      : weights_(weights), figures_(figures) {}

  void add(const Rectangle& whole) {
    const StoredType type = weights_.type_of(*whole.tensor);
    const int64_t row_bytes = whole.piece.num_cols * size_bits(type) / 8;
    for (int64_t r = 0; r < whole.piece.num_rows;) {
      if (used_ > 0 && kStagingBytes - used_ < row_bytes) flush();
      const int64_t room = std::max<int64_t>(1, (kStagingBytes - used_) / row_bytes);
      const int64_t count = std::min(room, whole.piece.num_rows - r);
      Staged one{whole, type, used_};
      one.rows.piece.first_row += r;
      one.rows.piece.num_rows = count;
      one.rows.piece.bucket_offset += r * whole.piece.bucket_stride;
      staged_.push_back(one);
      used_ += count * row_bytes;
      r += count;
    }
  }

  void flush() {
    if (staged_.empty()) return;
    bytes_.resize(std::max(bytes_.size(), static_cast<size_t>(used_)));
    figures_.staging_bytes =
        std::max(figures_.staging_bytes,
                 static_cast<int64_t>(bytes_.size() + values_.capacity() * sizeof(double)) +
                     WeightsOnDisk::kReadBytes);
    std::vector<WantedRows> wanted;
    for (const Staged& one : staged_) {
      WantedRows rows = wanted_of(one.rows);
      rows.to = bytes_.data() + one.at;
      rows.stride = rows.num_cols;
      wanted.push_back(rows);
    }
    figures_.disk.add(weights_.read(wanted));
    for (const Staged& one : staged_) convert(one);
    staged_.clear();
    used_ = 0;
  }

 private:
  struct Staged {
    Rectangle rows;
    StoredType type;
    int64_t at;  // byte in the staging area
  };

  void convert(const Staged& one) {
    const Piece& piece = one.rows.piece;
    const int64_t element = size_bits(one.type) / 8;
    for (int64_t r = 0; r < piece.num_rows; ++r) {
      const int64_t to = piece.bucket_offset + r * piece.bucket_stride;
      for (int64_t c = 0; c < piece.num_cols; c += kAtOnce) {
        const int64_t count = std::min(kAtOnce, piece.num_cols - c);
        const int64_t from = one.at + (r * piece.num_cols + c) * element;
        decode(one.type,
               std::span<const std::byte>(bytes_).subspan(static_cast<size_t>(from),
                                                          static_cast<size_t>(count * element)),
               std::span(values_).first(static_cast<size_t>(count)));
        for (int64_t i = 0; i < count; ++i) {
          write_element(one.rows.bucket, to + c + i, values_[static_cast<size_t>(i)]);
        }
      }
    }
  }

  static constexpr int64_t kAtOnce = 4096;  // values

  const WeightsOnDisk& weights_;
  LoadFigures& figures_;
  std::vector<Staged> staged_;
  std::vector<std::byte> bytes_;
  std::vector<double> values_ = std::vector<double>(static_cast<size_t>(kAtOnce));
  int64_t used_ = 0;
};

class Loading {
 public:
  Loading(Executor& executor, const StepGraph& step, const WeightsOnDisk& weights)
      : executor_(executor), step_(step), weights_(weights), converter_(weights, figures_) {}

  LoadFigures run() {
    for (size_t b = 0; b < step_.layout.buckets.size(); ++b) {
      if (step_.holds(executor_.program().rank, step_.layout.buckets[b].unit)) add_bucket(b);
    }
    flush();
    return figures_;
  }

 private:
  void add_bucket(size_t b) {
    const Bucket& bucket = step_.layout.buckets[b];
    const BucketBuffers& buffers = executor_.program().buckets[b];
    const HostView& view =
        views_.emplace_back(buffers.weights, executor_.view(buffers.weights)).second;
    const Tensor& memory = view.tensor;
    TESSERA_CHECK(buffers.master == kNoBuffer && memory.numel() == bucket.numel,
                  "bucket '{}' is not that of a forward pass", bucket.name);
    const int64_t position = split_position(step_, bucket, executor_.program().rank);
    int64_t filled = 0;
    std::vector<Rectangle> rectangles;
    for_each_tensor(bucket, [&](const LogicalTensor& tensor) {
      const Piece piece = piece_of(tensor, position);
      if (piece.num_rows == 0 || piece.num_cols == 0) return;
      rectangles.push_back({&tensor, piece, memory});
      filled += piece.num_rows * piece.num_cols;
    });
    if (filled < memory.numel()) {
      std::memset(memory.data, 0, static_cast<size_t>(memory.bytes()));
    }
    for (const Rectangle& one : rectangles) {
      if (weights_.type_of(*one.tensor) == stored_type(memory.dtype)) {
        straight_.push_back(wanted_of(one));
      } else {
        converter_.add(one);
      }
    }
    copied_bytes_ += std::ssize(view.copy);
    if (copied_bytes_ > 0) flush();
  }

  // All that goes straight into place is read at once, so that blocks of files that tensors share
  // are read once.
  void flush() {
    if (!straight_.empty()) {
      figures_.disk.add(weights_.read(straight_));
      figures_.staging_bytes =
          std::max(figures_.staging_bytes, WeightsOnDisk::kReadBytes + copied_bytes_);
    }
    straight_.clear();
    converter_.flush();
    for (const auto& [id, view] : views_) executor_.write(id, view);
    views_.clear();
    copied_bytes_ = 0;
  }

  Executor& executor_;
  const StepGraph& step_;
  const WeightsOnDisk& weights_;
  LoadFigures figures_;
  Converter converter_;
  std::vector<std::pair<BufferId, HostView>> views_;
  std::vector<WantedRows> straight_;
  int64_t copied_bytes_ = 0;
};

}  // namespace

LoadFigures load_from_disk(Executor& executor, const StepGraph& step,
                           const WeightsOnDisk& weights) {
  return Loading(executor, step, weights).run();
}

WeightsLoader loader_of(std::shared_ptr<const WeightsOnDisk> weights) {
  return [weights = std::move(weights)](Executor& executor, const StepGraph& step) {
    return load_from_disk(executor, step, *weights);
  };
}

WeightsLoader loader_of(TensorSource source) {
  return [source = std::move(source)](Executor& executor, const StepGraph& step) {
    load_weights(executor, step, source);
    return LoadFigures{};
  };
}

}  // namespace tessera
