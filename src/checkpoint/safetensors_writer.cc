#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/text/text.h"
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

int64_t bytes_of(const TensorHead& tensor) {
  const std::optional<int64_t> bytes = tensor_bytes(tensor.type, tensor.shape);
  TESSERA_CHECK(bytes.has_value(), "tensor '{}' of shape {} and dtype {}", tensor.name,
                shape_text(tensor.shape), name_of(tensor.type));
  return *bytes;
}

std::vector<TensorHead> checked(std::vector<TensorHead> tensors) {
  for (const TensorHead& tensor : tensors) {
    TESSERA_CHECK(tensor.name != kMetadataKey && tensor.name.size() <= kMaxTensorName &&
                      tensor.name.find('\0') == std::string::npos,
                  "tensor name {}", in_quotes(tensor.name));
    TESSERA_CHECK(tensor.shape.size() <= kMaxTensorRank, "tensor '{}' has {} dims", tensor.name,
                  tensor.shape.size());
  }
  sort_in_file_order(tensors);
  std::vector<std::string_view> names;
  for (const TensorHead& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  TESSERA_CHECK(twice == names.end(), "a tensor name is there twice among {}", names.size());
  return tensors;
}

std::string header_json(std::span<const TensorHead> tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> entries;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) {
      pairs.push_back(fmt::format("{}:{}", json_string(key), json_string(value)));
    }
    entries.push_back(fmt::format("\"{}\":{{{}}}", kMetadataKey, fmt::join(pairs, ",")));
  }
  int64_t begin = 0;
  for (const TensorHead& tensor : tensors) {
    const int64_t end = begin + bytes_of(tensor);
    entries.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  json_string(tensor.name), name_of(tensor.type),
                                  fmt::join(tensor.shape, ","), begin, end));
    begin = end;
  }
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

}  // namespace

void sort_in_file_order(std::vector<TensorHead>& tensors) {
  std::ranges::sort(tensors, [](const TensorHead& a, const TensorHead& b) {
    return std::tie(b.type, a.name) < std::tie(a.type, b.name);
  });
}

std::string safetensors_head(std::span<const TensorHead> tensors,
                             const std::map<std::string, std::string>& metadata) {
  std::string header = header_json(tensors, metadata);
  const size_t whole = sizeof(uint64_t) + header.size();
  header.resize(header.size() + (kDataAlignment - whole % kDataAlignment) % kDataAlignment, ' ');
  std::string head;
  for (size_t i = 0; i < sizeof(uint64_t); ++i) head += static_cast<char>(header.size() >> (8 * i));
  return head + header;
}

int64_t safetensors_file_bytes(std::vector<TensorHead> tensors,
                               const std::map<std::string, std::string>& metadata) {
  sort_in_file_order(tensors);
  auto bytes = static_cast<int64_t>(safetensors_head(tensors, metadata).size());
  for (const TensorHead& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<TensorHead> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(checked(std::move(tensors))), file_(path) {
  const std::string head = safetensors_head(tensors_, metadata);
  const size_t length = head.size() - sizeof(uint64_t);
  require(length <= static_cast<size_t>(kMaxHeaderBytes),
          "cannot write '{}': its header would have {} bytes, more than {}; use several files",
          path, length, kMaxHeaderBytes);
  file_.write(std::as_bytes(std::span(head)));
}

void SafetensorsWriter::add(std::string_view name, std::span<const std::byte> bytes) {
  TESSERA_CHECK(added_ < tensors_.size() && tensors_[added_].name == name,
                "tensor {} of the file is not '{}'", added_, name);
  const TensorHead& tensor = tensors_[added_];
  TESSERA_CHECK(bytes_of(tensor) == std::ssize(bytes),
                "tensor '{}' of shape {} and dtype {} has {} bytes", tensor.name,
                shape_text(tensor.shape), name_of(tensor.type), bytes.size());
  file_.write(bytes);
  ++added_;
}

void SafetensorsWriter::commit() {
  TESSERA_CHECK(added_ == tensors_.size(), "only {} of {} tensors were added", added_,
                tensors_.size());
  file_.commit();
}

void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorHead> heads;
  std::map<std::string_view, std::span<const std::byte>> bytes;
  for (const TensorToWrite& tensor : tensors) {
    heads.push_back({tensor.name, tensor.type, tensor.shape});
    bytes[tensor.name] = tensor.bytes;
  }
  SafetensorsWriter writer(path, heads, metadata);
  sort_in_file_order(heads);
  for (const TensorHead& head : heads) writer.add(head.name, bytes.at(head.name));
  writer.commit();
}

}  // namespace tessera
