// Weights as they lie on a disk: rectangles of logical tensors, in the type that they are stored
// in, for ranks that need some rows and columns of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "checkpoint/store/box_reader.h"
#include "checkpoint/stored_type.h"
#include "compile/model/parameters.h"
#include "train/weights/weights.h"

namespace tessera {

// Rows and columns of a logical tensor, and where they go: element (r, c) of them lies
// r * stride + c elements, of the stored type, behind `to`. They may be none.
struct WantedRows {
  const LogicalTensor* tensor = nullptr;
  int64_t first_row = 0, num_rows = 0;
  int64_t first_col = 0, num_cols = 0;
  std::byte* to = nullptr;
  int64_t stride = 0;
};

class WeightsOnDisk {
 public:
  // Most memory that one read() takes beside what it fills.
  static constexpr int64_t kReadBytes = int64_t{8} << 20;

  virtual ~WeightsOnDisk() = default;
  [[nodiscard]] virtual StoredType type_of(const LogicalTensor& tensor) const = 0;
  // Fills all of them; of the files little more is read than what lies between the first and the
  // last byte of runs that are close to each other. Thread-safe. Throws Error where a file cannot
  // be read or is damaged.
  virtual ReadFigures read(std::span<const WantedRows> wanted) const = 0;
};

// Those of a checkpoint, or of a Hugging Face folder; throws as hf_weights() does.
std::shared_ptr<const WeightsOnDisk> open_weights(const std::string& folder,
                                                  const ParameterLayout& layout);

// The same as numbers. Each thread that asks keeps kWindowBytes of rows, at least one of them,
// because it goes through the tensors in its own order.
inline constexpr int64_t kWindowBytes = int64_t{16} << 20;
TensorSource source_of(std::shared_ptr<const WeightsOnDisk> weights);

}  // namespace tessera
