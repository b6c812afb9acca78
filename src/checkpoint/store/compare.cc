#include "checkpoint/store/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/store/box_reader.h"

namespace tessera {
namespace {

constexpr int64_t kPiece = 1 << 20;  // elements

// Elements [first, first + count), row-major, as the file has them.
std::vector<std::byte> read_range(const StoredCheckpoint& stored, const ManifestTensor& tensor,
                                  int64_t first, int64_t count) {
  const int64_t element = size_bits(tensor.type) / 8;
  std::vector<std::byte> bytes(static_cast<size_t>(count * element));
  std::vector<WantedBox> wanted;
  int64_t at = 0;
  for (const Box& box : boxes_of_range(tensor.shape, first, count)) {
    wanted.push_back({tensor.name, tensor.type, tensor.shape, placed_dense(box, at), bytes.data()});
    at += volume(box);
  }
  read_boxes(stored.files, stored.checkpoint, wanted);
  return bytes;
}

std::vector<double> numbers_of(StoredType type, std::span<const std::byte> bytes, int64_t count) {
  std::vector<double> numbers(static_cast<size_t>(count));
  if (is_readable(type)) decode(type, bytes, numbers);
  return numbers;
}

void compare_piece(const ManifestTensor& tensor, const std::vector<std::byte>& a,
                   const std::vector<std::byte>& b, TensorDifference& difference) {
  if (a == b) return;
  const auto element = static_cast<size_t>(size_bits(tensor.type) / 8);
  const auto count = static_cast<int64_t>(a.size() / element);
  const std::vector<double> in_a = numbers_of(tensor.type, a, count);
  const std::vector<double> in_b = numbers_of(tensor.type, b, count);
  for (size_t i = 0; i < in_a.size(); ++i) {
    if (std::memcmp(a.data() + i * element, b.data() + i * element, element) == 0) continue;
    ++difference.different;
    const double apart = std::abs(in_a[i] - in_b[i]);
    if (!(apart <= difference.largest)) difference.largest = apart;
  }
}

std::string head_text(const ManifestTensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.type), shape_text(tensor.shape));
}

TensorDifference compare_tensor(const StoredCheckpoint& a, const StoredCheckpoint& b,
                                const std::string& name) {
  const ManifestTensor* in_a = a.checkpoint.manifest.find(name);
  const ManifestTensor* in_b = b.checkpoint.manifest.find(name);
  TensorDifference difference;
  difference.tensor = name;
  if (in_a == nullptr || in_b == nullptr) {
    difference.kind = in_a == nullptr ? "only in B" : "only in A";
    return difference;
  }
  if (in_a->type != in_b->type || in_a->shape != in_b->shape) {
    difference.kind = fmt::format("{} in A, {} in B", head_text(*in_a), head_text(*in_b));
    return difference;
  }
  difference.elements = volume(whole_box(in_a->shape));
  for (int64_t first = 0; first < difference.elements; first += kPiece) {
    const int64_t count = std::min(kPiece, difference.elements - first);
    compare_piece(*in_a, read_range(a, *in_a, first, count), read_range(b, *in_b, first, count),
                  difference);
  }
  return difference;
}

}  // namespace

CheckpointDifference compare_checkpoints(const StoredCheckpoint& a, const StoredCheckpoint& b) {
  CheckpointDifference all;
  std::set<std::string> names, keys;
  for (const StoredCheckpoint* one : {&a, &b}) {
    for (const ManifestTensor& tensor : one->checkpoint.manifest.tensors) names.insert(tensor.name);
    for (const auto& [key, value] : one->checkpoint.state.items()) keys.insert(key);
  }
  for (const std::string& name : names) {
    TensorDifference difference = compare_tensor(a, b, name);
    if (difference.kind.empty() && difference.different == 0) {
      ++all.same_tensors;
    } else {
      all.tensors.push_back(std::move(difference));
    }
  }
  for (const std::string& key : keys) {
    if (a.checkpoint.state.value(key, nlohmann::json()) !=
        b.checkpoint.state.value(key, nlohmann::json())) {
      all.state.push_back(key);
    }
  }
  return all;
}

}  // namespace tessera
