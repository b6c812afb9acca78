// The header of a safetensors file: a JSON object that says which tensor lies where.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/stored_type.h"

namespace tessera {

struct TensorInfo {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;  // row-major; empty for a scalar
  int64_t begin = 0;           // bytes [begin, end) of the data part
  int64_t end = 0;

  [[nodiscard]] int64_t numel() const { return (end - begin) * 8 / size_bits(type); }
};

inline constexpr int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr size_t kMaxTensorName = 4096;
inline constexpr size_t kMaxTensorRank = 8;
inline constexpr std::string_view kMetadataKey = "__metadata__";

class SafetensorsHeader {
 public:
  // Checks everything there is to check: syntax, duplicate keys, names, ranks, sizes, and that the
  // tensors cover the `data_bytes` bytes after the header without hole or overlap. Throws Error
  // naming `path`, the tensor and the value.
  static SafetensorsHeader parse(std::string_view json, int64_t data_bytes,
                                 const std::string& path);

  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }  // file order
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;  // null if absent
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::vector<TensorInfo> tensors_;
  std::vector<size_t> by_name_;  // indices into tensors_, sorted by name
  std::map<std::string, std::string> metadata_;
};

std::string shape_text(const std::vector<int64_t>& shape);  // "[2, 3]"

}  // namespace tessera
