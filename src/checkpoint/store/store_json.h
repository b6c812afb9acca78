// JSON of a checkpoint, which may come from anywhere: bounded, without keys that are there twice,
// and read with the place in every message. Everything that is wrong throws Error with
// ExitCode::kCorrupt.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/store/store_names.h"

namespace tessera {

inline constexpr int64_t kMostManifestBytes = int64_t{256} << 20;
inline constexpr int64_t kMostStateBytes = int64_t{16} << 20;
inline constexpr int64_t kMostCommitBytes = int64_t{16} << 20;

// One value and nothing after it, nested at most 64 deep.
nlohmann::json parse_store_json(std::string_view text, const std::string& file);
std::string dump_store_json(const nlohmann::json& json);

// A value of a parsed file, and where it stands. Borrows both.
class StoreValue {
 public:
  StoreValue(const nlohmann::json& value, const std::string& file, std::string place = "")
      : value_(&value), file_(&file), place_(std::move(place)) {}

  [[nodiscard]] StoreValue at(const char* key) const;           // of an object; must be there
  [[nodiscard]] StoreValue at(size_t index) const;              // of a list
  [[nodiscard]] size_t size() const;                            // of a list
  [[nodiscard]] const nlohmann::json& object() const;           // must be one
  [[nodiscard]] int64_t whole(int64_t most = INT64_MAX) const;  // from 0 to `most`
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] std::string id() const;              // is_id
  [[nodiscard]] std::string hash() const;            // 64 lower-case digits
  [[nodiscard]] std::vector<int64_t> sizes() const;  // a list of at most kMostBoxDims
  [[nodiscard]] StoreValue member(const std::string& key, const nlohmann::json& value) const;
  [[nodiscard]] const std::string& place() const { return place_; }

  // "PLACE REASON", as fail_corrupt says it.
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  const nlohmann::json* value_;
  const std::string* file_;
  std::string place_;
};

// The head that every file has: which format, which version, whose save. Another format is damage;
// a newer major version throws Error with ExitCode::kVersion and both versions.
nlohmann::json head_json(const SaveId& id, int64_t step);
struct FileHead {
  FormatVersion version;
  SaveId id;
  int64_t step = 0;
};
FileHead parse_head(const StoreValue& root, const std::string& file);

}  // namespace tessera
