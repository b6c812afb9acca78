// manifest.json of a checkpoint: which tensors there are, and which file has which box of each.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/box/box.h"
#include "checkpoint/store/store_json.h"
#include "checkpoint/stored_type.h"

namespace tessera {

inline constexpr int64_t kMostShards = 1'000'000;

struct ManifestChunk {
  Box box;
  int64_t file = 0;            // place in Manifest::files
  int64_t begin = 0, end = 0;  // bytes of that file, counted from its first
};

struct ManifestTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  std::vector<ManifestChunk> chunks;
};

struct ManifestFile {
  std::string name;  // data_file(place, files)
  int64_t bytes = 0;
};

struct Manifest {
  FileHead head;
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;  // sorted by name

  [[nodiscard]] const ManifestTensor* find(std::string_view name) const;  // null: there is none
  [[nodiscard]] int64_t data_bytes() const;                               // of all files
};

nlohmann::json to_json(const Manifest& manifest);
// Checks all that a manifest can be wrong in by itself, and that the chunks of every tensor cover
// it exactly. Fields that it does not know are passed over.
Manifest parse_manifest(std::string_view text, const std::string& path);

}  // namespace tessera
