#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kShownName = 200;

// Length of the JSON header, checked against the limit and the file before anything is allocated.
int64_t header_bytes(const InputFile& file) {
  require(file.size() >= kLengthBytes,
          "'{}' has only {} bytes, too few for a safetensors file: download or export it again",
          file.path(), file.size());
  uint64_t length = 0;
  file.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  require(length <= static_cast<uint64_t>(kMaxHeaderBytes),
          "'{}' claims a header of {} bytes, more than {}: it is not a safetensors file",
          file.path(), length, kMaxHeaderBytes);
  const auto signed_length = static_cast<int64_t>(length);
  require(signed_length <= file.size() - kLengthBytes,
          "'{}' is truncated: its header has {} bytes but only {} follow; download or export it "
          "again",
          file.path(), length, file.size() - kLengthBytes);
  return signed_length;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  InputFile file = InputFile::open(path);
  const int64_t length = header_bytes(file);
  const int64_t data_start = kLengthBytes + length;
  SafetensorsHeader header = SafetensorsHeader::parse(file.read_text(kLengthBytes, length),
                                                      file.size() - data_start, path);
  return {std::move(file), std::move(header), data_start};
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> result;
  for (const TensorInfo& tensor : tensors()) result.push_back(tensor.name);
  return result;
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  const TensorInfo* tensor = find(name);
  require(tensor != nullptr, "'{}' has no tensor {}: check that it belongs to this model", path(),
          in_quotes(name, kShownName));
  return *tensor;
}

template <typename T>
void SafetensorsFile::read_converted(const TensorInfo& tensor, int64_t first,
                                     std::span<T> out) const {
  require(is_readable(tensor.type),
          "tensor {} of '{}' has dtype {}, which cannot be read: convert it to F32 or BF16",
          in_quotes(tensor.name, kShownName), path(), name_of(tensor.type));
  require(!std::is_integral_v<T> || is_integer(tensor.type),
          "tensor {} of '{}' has dtype {} but whole numbers are needed: store it as I64",
          in_quotes(tensor.name, kShownName), path(), name_of(tensor.type));
  TESSERA_CHECK(first >= 0 && first <= tensor.numel() && std::ssize(out) <= tensor.numel() - first,
                "elements [{}, +{}) of tensor '{}' of shape {}", first, out.size(), tensor.name,
                shape_text(tensor.shape));
  const auto element = static_cast<size_t>(size_bits(tensor.type) / 8);
  const size_t per_chunk = kChunkBytes / element;
  std::vector<std::byte> buffer(std::min(out.size(), per_chunk) * element);
  int64_t offset = data_start_ + tensor.begin + first * static_cast<int64_t>(element);
  while (!out.empty()) {
    const size_t count = std::min(out.size(), per_chunk);
    const std::span<std::byte> bytes = std::span(buffer).first(count * element);
    file_.read_at(offset, bytes);
    decode(tensor.type, bytes, out.first(count));
    offset += std::ssize(bytes);
    out = out.subspan(count);
  }
}

template <typename T>
void SafetensorsFile::read_whole(std::string_view name, std::span<T> out) const {
  const TensorInfo& tensor = at(name);
  TESSERA_CHECK(std::ssize(out) == tensor.numel(), "{} elements for tensor '{}' of shape {}",
                out.size(), name, shape_text(tensor.shape));
  read_converted(tensor, 0, out);
}

void SafetensorsFile::read(std::string_view name, std::span<double> out) const {
  read_whole(name, out);
}
void SafetensorsFile::read(std::string_view name, std::span<float> out) const {
  read_whole(name, out);
}
void SafetensorsFile::read(std::string_view name, std::span<int64_t> out) const {
  read_whole(name, out);
}

void SafetensorsFile::read_bytes(std::string_view name, std::span<std::byte> out) const {
  const TensorInfo& tensor = at(name);
  TESSERA_CHECK(std::ssize(out) == tensor.end - tensor.begin, "{} bytes for tensor '{}' of {}",
                out.size(), name, tensor.end - tensor.begin);
  file_.read_at(data_start_ + tensor.begin, out);
}

void SafetensorsFile::read_bytes_at(std::string_view name, int64_t first,
                                    std::span<std::byte> out) const {
  const TensorInfo& tensor = at(name);
  const int64_t size = tensor.end - tensor.begin;
  TESSERA_CHECK(first >= 0 && first <= size && std::ssize(out) <= size - first,
                "bytes [{}, +{}) of tensor '{}' of {}", first, out.size(), name, size);
  file_.read_at(data_start_ + tensor.begin + first, out);
}

void SafetensorsFile::read_range(std::string_view name, int64_t first,
                                 std::span<double> out) const {
  read_converted(at(name), first, out);
}
void SafetensorsFile::read_range(std::string_view name, int64_t first, std::span<float> out) const {
  read_converted(at(name), first, out);
}
void SafetensorsFile::read_range(std::string_view name, int64_t first,
                                 std::span<int64_t> out) const {
  read_converted(at(name), first, out);
}

}  // namespace tessera
