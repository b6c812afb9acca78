#include "checkpoint/checkpoint_place.h"

#include <filesystem>

#include "checkpoint/store/saves.h"
#include "checkpoint/store/store_error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// Whether it is one checkpoint rather than a folder of them.
bool is_one(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  return step_of_folder(name) || in_progress_of_folder(name) ||
         fs::exists(path / kCommitFile, ignored) || fs::exists(path / kManifestFile, ignored);
}

}  // namespace

CheckpointPlace find_checkpoints(const std::string& path) {
  std::error_code ignored;
  fs::path place = fs::absolute(path).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();
  if (!fs::exists(place, ignored)) {
    fail_absent(path, "does not exist: name a run directory or a folder of checkpoints");
  }
  if (is_one(place)) {
    const fs::path parent = fs::path(path).lexically_normal();
    std::string shown = (parent.filename().empty() ? parent.parent_path() : parent).parent_path();
    return {real_files(shown.empty() ? "." : shown), place.filename().string()};
  }
  const fs::path inside = fs::path(path) / "checkpoints";
  return {real_files(fs::is_directory(inside, ignored) ? inside.string() : path), ""};
}

CheckpointPlace find_checkpoint(const std::string& path, bool allow_unchecked) {
  CheckpointPlace place = find_checkpoints(path);
  if (!place.folder.empty()) return place;
  const auto newest = newest_good(*place.files, {}, {.allow_unchecked = allow_unchecked});
  if (!newest) fail_absent(path, "holds no checkpoint: name a folder that has step-* folders");
  place.folder = newest->folder;
  return place;
}

}  // namespace tessera
