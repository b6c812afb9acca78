#include "train/weights/weights_on_disk.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "train/weights/checkpoint_weights.h"
#include "train/weights/folder_weights.h"

namespace tessera {
namespace {

// Whole rows of one tensor, as they are stored.
struct Window {
  std::string tensor;
  int64_t first_row = 0, num_rows = 0;
  std::vector<std::byte> bytes;

  [[nodiscard]] bool has(const LogicalTensor& of, int64_t row) const {
    return tensor == of.name && row >= first_row && row < first_row + num_rows;
  }
};

class WindowedRows {
 public:
  explicit WindowedRows(std::shared_ptr<const WeightsOnDisk> weights)
      : weights_(std::move(weights)) {}

  void read(const LogicalTensor& tensor, int64_t first, std::span<double> out) {
    Window& window = window_of_this_thread();
    const StoredType type = weights_->type_of(tensor);
    const int64_t cols = tensor.cols(), element = size_bits(type) / 8;
    while (!out.empty()) {
      const int64_t row = first / cols;
      if (!window.has(tensor, row)) fill(window, tensor, row);
      const int64_t at = first - window.first_row * cols;
      const int64_t count = std::min(std::ssize(out), window.num_rows * cols - at);
      decode(type,
             std::span<const std::byte>(window.bytes)
                 .subspan(static_cast<size_t>(at * element), static_cast<size_t>(count * element)),
             out.first(static_cast<size_t>(count)));
      out = out.subspan(static_cast<size_t>(count));
      first += count;
    }
  }

 private:
  Window& window_of_this_thread() {
    const std::scoped_lock lock(mutex_);
    return windows_[std::this_thread::get_id()];  // references into a map stay valid
  }

  void fill(Window& window, const LogicalTensor& tensor, int64_t row) const {
    const int64_t row_bytes = tensor.cols() * size_bits(weights_->type_of(tensor)) / 8;
    window.tensor.clear();  // until it is there
    window.first_row = row;
    window.num_rows = std::clamp<int64_t>(kWindowBytes / row_bytes, 1, tensor.rows() - row);
    window.bytes.resize(static_cast<size_t>(window.num_rows * row_bytes));
    const WantedRows wanted{
        &tensor, row, window.num_rows, 0, tensor.cols(), window.bytes.data(), tensor.cols()};
    (void)weights_->read({&wanted, 1});
    window.tensor = tensor.name;
  }

  const std::shared_ptr<const WeightsOnDisk> weights_;
  std::mutex mutex_;
  std::map<std::thread::id, Window> windows_;
};

}  // namespace

std::shared_ptr<const WeightsOnDisk> open_weights(const std::string& folder,
                                                  const ParameterLayout& layout) {
  if (is_checkpoint(folder)) return open_checkpoint_weights(folder, layout);
  return open_folder_weights(folder, layout);
}

TensorSource source_of(std::shared_ptr<const WeightsOnDisk> weights) {
  const auto rows = std::make_shared<WindowedRows>(std::move(weights));
  return [rows](const LogicalTensor& tensor, int64_t first, std::span<double> out) {
    rows->read(tensor, first, out);
  };
}

}  // namespace tessera
