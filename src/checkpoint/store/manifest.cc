#include "checkpoint/store/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/text.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/store/store_error.h"

namespace tessera {
namespace {

using nlohmann::json;

json chunk_json(const ManifestChunk& chunk) {
  return {{"offset", chunk.box.offset},
          {"shape", chunk.box.shape},
          {"file", chunk.file},
          {"begin", chunk.begin},
          {"end", chunk.end}};
}

std::vector<ManifestFile> parse_files(const StoreValue& list) {
  std::vector<ManifestFile> files;
  const auto count = static_cast<int64_t>(list.size());
  if (count < 1 || count > kMostShards) list.fail(fmt::format("has {} entries", count));
  for (int64_t i = 0; i < count; ++i) {
    const StoreValue file = list.at(static_cast<size_t>(i));
    const StoreValue name = file.at("name");
    if (name.text() != data_file(i, count)) {
      name.fail(fmt::format("is {}, not \"{}\"", in_quotes(name.text()), data_file(i, count)));
    }
    files.push_back({name.text(), file.at("bytes").whole()});
  }
  return files;
}

ManifestChunk parse_chunk(const StoreValue& place, const ManifestTensor& tensor,
                          const std::vector<ManifestFile>& files) {
  ManifestChunk chunk;
  chunk.box = {place.at("offset").sizes(), place.at("shape").sizes()};
  if (!lies_in(chunk.box, tensor.shape)) {
    place.fail(fmt::format("does not lie in a tensor of shape {}", shape_text(tensor.shape)));
  }
  chunk.file = place.at("file").whole(static_cast<int64_t>(files.size()) - 1);
  chunk.begin = place.at("begin").whole();
  chunk.end = place.at("end").whole(files[static_cast<size_t>(chunk.file)].bytes);
  const auto needed = tensor_bytes(tensor.type, chunk.box.shape);
  if (chunk.begin > chunk.end || !needed || chunk.end - chunk.begin != *needed) {
    place.fail(fmt::format("has bytes {} to {}, but a chunk of shape {} and dtype {} needs {}",
                           chunk.begin, chunk.end, shape_text(chunk.box.shape),
                           name_of(tensor.type), needed.value_or(-1)));
  }
  return chunk;
}

ManifestTensor parse_tensor(const std::string& name, const StoreValue& place,
                            const std::vector<ManifestFile>& files) {
  ManifestTensor tensor;
  tensor.name = name;
  if (name.empty() || name.size() > kMaxTensorName || name.find('\0') != name.npos) {
    place.fail(fmt::format("has a name of {} bytes", name.size()));
  }
  const StoreValue dtype = place.at("dtype");
  const auto type = parse_stored_type(dtype.text());
  if (!type) dtype.fail(fmt::format("is {}, which is unknown", in_quotes(dtype.text())));
  tensor.type = *type;
  tensor.shape = place.at("shape").sizes();
  if (!tensor_bytes(tensor.type, tensor.shape)) {
    place.fail(fmt::format("of shape {} has an impossible size", shape_text(tensor.shape)));
  }
  const StoreValue chunks = place.at("chunks");
  std::vector<Box> boxes;
  for (size_t i = 0; i < chunks.size(); ++i) {
    tensor.chunks.push_back(parse_chunk(chunks.at(i), tensor, files));
    boxes.push_back(tensor.chunks.back().box);
  }
  const std::string problem = cover_problem(tensor.shape, std::move(boxes));
  if (!problem.empty()) place.fail("is not there exactly once: " + problem);
  return tensor;
}

}  // namespace

const ManifestTensor* Manifest::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      tensors, name, {}, [](const ManifestTensor& t) -> std::string_view { return t.name; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

int64_t Manifest::data_bytes() const {
  int64_t bytes = 0;
  for (const ManifestFile& file : files) bytes += file.bytes;
  return bytes;
}

json to_json(const Manifest& manifest) {
  json root = head_json(manifest.head.id, manifest.head.step);
  root["files"] = json::array();
  for (const ManifestFile& file : manifest.files) {
    root["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  root["tensors"] = json::object();
  for (const ManifestTensor& tensor : manifest.tensors) {
    json chunks = json::array();
    for (const ManifestChunk& chunk : tensor.chunks) chunks.push_back(chunk_json(chunk));
    root["tensors"][tensor.name] = {
        {"dtype", name_of(tensor.type)}, {"shape", tensor.shape}, {"chunks", std::move(chunks)}};
  }
  return root;
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  const json parsed = parse_store_json(text, path);
  const StoreValue root(parsed, path);
  Manifest manifest;
  manifest.head = parse_head(root, path);
  manifest.files = parse_files(root.at("files"));
  const StoreValue tensors = root.at("tensors");
  for (const auto& [name, value] : tensors.object().items()) {  // in order of their names
    manifest.tensors.push_back(parse_tensor(name, tensors.member(name, value), manifest.files));
  }
  return manifest;
}

}  // namespace tessera
