#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/output_file.h"
#include "checkpoint/safetensors.h"

namespace tessera {
namespace {

constexpr size_t kDataAlignment = 64;

std::string json_string(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw Error(fmt::format("cannot write {} into a safetensors header: it is not valid UTF-8",
                            in_quotes(text)));
  }
}

void check_tensor(const TensorToWrite& tensor) {
  TESSERA_CHECK(tensor.name != kMetadataKey && tensor.name.size() <= kMaxTensorName &&
                    tensor.name.find('\0') == std::string::npos,
                "tensor name {}", in_quotes(tensor.name));
  TESSERA_CHECK(tensor.shape.size() <= kMaxTensorRank, "tensor '{}' has {} dims", tensor.name,
                tensor.shape.size());
  TESSERA_CHECK(tensor_bytes(tensor.type, tensor.shape) == std::ssize(tensor.bytes),
                "tensor '{}' of shape {} and dtype {} has {} bytes", tensor.name,
                shape_text(tensor.shape), name_of(tensor.type), tensor.bytes.size());
}

std::vector<const TensorToWrite*> in_file_order(std::span<const TensorToWrite> tensors) {
  std::vector<const TensorToWrite*> order;
  for (const TensorToWrite& tensor : tensors) {
    check_tensor(tensor);
    order.push_back(&tensor);
  }
  std::ranges::sort(order, [](const TensorToWrite* a, const TensorToWrite* b) {
    return std::tie(b->type, a->name) < std::tie(a->type, b->name);
  });
  std::vector<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  TESSERA_CHECK(twice == names.end(), "a tensor name is there twice among {}", names.size());
  return order;
}

std::string header_json(std::span<const TensorToWrite* const> order,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> entries;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) {
      pairs.push_back(fmt::format("{}:{}", json_string(key), json_string(value)));
    }
    entries.push_back(fmt::format("\"{}\":{{{}}}", kMetadataKey, fmt::join(pairs, ",")));
  }
  size_t begin = 0;
  for (const TensorToWrite* tensor : order) {
    const size_t end = begin + tensor->bytes.size();
    entries.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  json_string(tensor->name), name_of(tensor->type),
                                  fmt::join(tensor->shape, ","), begin, end));
    begin = end;
  }
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<const TensorToWrite*> order = in_file_order(tensors);
  std::string header = header_json(order, metadata);
  uint64_t length = header.size();
  length += (kDataAlignment - (sizeof(length) + length) % kDataAlignment) % kDataAlignment;
  require(length <= static_cast<uint64_t>(kMaxHeaderBytes),
          "cannot write '{}': its header would have {} bytes, more than {}; use several files",
          path, length, kMaxHeaderBytes);
  header.resize(length, ' ');

  OutputFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const TensorToWrite* tensor : order) file.write(tensor->bytes);
  file.commit();
}

}  // namespace tessera
