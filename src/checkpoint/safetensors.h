// Reading and writing safetensors files: u64 header length, JSON header, raw little-endian tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/input_file.h"
#include "checkpoint/output_file.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/stored_type.h"

namespace tessera {

// An open file whose header has been checked in full; tensors are read on demand, straight from the
// file. Move-only. Reading is const and thread-safe. Everything that is wrong with the file throws
// Error with the file, the tensor, the value and what to do; a wrong size of `out` is our own bug.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return header_.tensors(); }
  [[nodiscard]] std::vector<std::string> names() const;  // in file order
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const {
    return header_.metadata();
  }

  // Null if there is no such tensor; valid as long as this object.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const { return header_.find(name); }
  [[nodiscard]] const TensorInfo& at(std::string_view name) const;  // Error if absent

  // The whole tensor, converted; out.size() must be its number of elements. int64_t reads integer
  // types only.
  void read(std::string_view name, std::span<double> out) const;
  void read(std::string_view name, std::span<float> out) const;
  void read(std::string_view name, std::span<int64_t> out) const;

  // Elements [first, first + out.size()) in row-major order.
  void read_range(std::string_view name, int64_t first, std::span<double> out) const;
  void read_range(std::string_view name, int64_t first, std::span<float> out) const;
  void read_range(std::string_view name, int64_t first, std::span<int64_t> out) const;

  // The whole tensor as the file has it; out.size() must be its number of bytes.
  void read_bytes(std::string_view name, std::span<std::byte> out) const;
  // Bytes [first, first + out.size()) of it.
  void read_bytes_at(std::string_view name, int64_t first, std::span<std::byte> out) const;

 private:
  SafetensorsFile(InputFile file, SafetensorsHeader header, int64_t data_start)
      : file_(std::move(file)), header_(std::move(header)), data_start_(data_start) {}

  template <typename T>
  void read_converted(const TensorInfo& tensor, int64_t first, std::span<T> out) const;
  template <typename T>
  void read_whole(std::string_view name, std::span<T> out) const;

  InputFile file_;
  SafetensorsHeader header_;
  int64_t data_start_;
};

struct TensorHead {
  std::string name;
  StoredType type = StoredType::kF32;  // stored_type(DType) for an engine type
  std::vector<int64_t> shape;
};

// By type (wide ones first) and name: the order of the tensors in a file.
void sort_in_file_order(std::vector<TensorHead>& tensors);

// What a file of these begins with: the length of its header and the header, padded so that the
// data begins at a multiple of 64. The tensors must be in file order, with distinct and valid
// names.
std::string safetensors_head(std::span<const TensorHead> tensors,
                             const std::map<std::string, std::string>& metadata);

// The size of the file that SafetensorsWriter makes of these.
int64_t safetensors_file_bytes(std::vector<TensorHead> tensors,
                               const std::map<std::string, std::string>& metadata);

// Writes a file with one tensor in memory at a time: path.tmp, which commit() syncs and renames to
// `path`, so that `path` never holds half a file; the mode is 0600. The header is padded so that
// the data begins at a multiple of 64. Throws Error and removes path.tmp if it cannot be written
// (disk full, no folder, no permission). Names must be distinct and valid.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, std::vector<TensorHead> tensors,
                    const std::map<std::string, std::string>& metadata);

  // The next tensor in file order; `bytes` must fit its shape.
  void add(std::string_view name, std::span<const std::byte> bytes);
  void commit();

 private:
  std::vector<TensorHead> tensors_;  // in file order
  size_t added_ = 0;
  OutputFile file_;
};

struct TensorToWrite {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // borrowed until the write returns
};

// The same with all tensors in memory, in any order.
void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace tessera
