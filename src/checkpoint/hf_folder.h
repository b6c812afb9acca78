// The weights of a Hugging Face model folder.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"

namespace tessera {

// model.safetensors, or else the files that model.safetensors.index.json lists, or else the
// weights.safetensors of an old run directory. Pickle files (*.bin) are never opened. All headers
// are checked on opening. Links are followed, because download caches are made of them, but a file
// name from the index must be a plain name inside the folder. Throws Error like SafetensorsFile;
// move-only, reading is thread-safe.
class HfWeights {
 public:
  static HfWeights open(const std::string& folder);
  // Whether the folder has either of these files.
  static bool present(const std::string& folder);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::vector<std::string> names() const;  // sorted

  // Null if there is no such tensor; valid as long as this object.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;

  // Throws Error with both shapes unless the tensor is there with this one.
  void require_shape(const std::string& name, const std::vector<int64_t>& expected_shape) const;

  // The whole tensor, after checking its shape: a mismatch throws Error with both shapes.
  void read(const std::string& name, const std::vector<int64_t>& expected_shape,
            std::span<double> out) const;
  void read(const std::string& name, const std::vector<int64_t>& expected_shape,
            std::span<float> out) const;

  // Elements [first, first + out.size()), for a rank that needs only some rows.
  void read_range(const std::string& name, const std::vector<int64_t>& expected_shape,
                  int64_t first, std::span<double> out) const;
  void read_range(const std::string& name, const std::vector<int64_t>& expected_shape,
                  int64_t first, std::span<float> out) const;

  // The whole tensor as its file has it; out.size() must be its number of bytes.
  void read_bytes(const std::string& name, std::span<std::byte> out) const;
  // Bytes [first, first + out.size()) of it, after checking its shape.
  void read_bytes_at(const std::string& name, const std::vector<int64_t>& expected_shape,
                     int64_t first, std::span<std::byte> out) const;

 private:
  explicit HfWeights(std::string folder) : folder_(std::move(folder)) {}

  // The file that holds the tensor, once it is known to exist with this shape.
  [[nodiscard]] const SafetensorsFile& file_with(const std::string& name,
                                                 const std::vector<int64_t>& expected_shape) const;

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> file_of_;  // tensor name to index in files_
};

// Whether two tensors have the same type, shape and bytes; both must be there.
bool is_same_tensor(const HfWeights& weights, const std::string& name, const std::string& other);

// Throws Error listing in full the expected names that the folder lacks and the names it has that
// nobody expects. "*.rotary_emb.inv_freq", "*.attn.bias" and "*.attn.masked_bias" are skipped: they
// can be computed.
void require_exact_names(const HfWeights& weights, std::span<const std::string> expected);

}  // namespace tessera
