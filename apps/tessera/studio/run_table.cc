#include "studio/run_table.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/text/printable.h"
#include "studio/run_files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostRuns = 2000;  // of one folder
constexpr size_t kLongestId = 64;

bool is_id_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
         c == '_' || c == '-';
}

// The name where it can stand in a link as it is, and is not taken; else with a mark of its path.
std::string id_of(const std::string& name, const std::string& path,
                  const std::set<std::string>& taken) {
  std::string id = name.substr(0, kLongestId);
  std::replace_if(
      id.begin(), id.end(), [](char c) { return !is_id_character(c); }, '-');
  if (id == name && id.find_first_not_of('.') != std::string::npos && !taken.contains(id)) {
    return id;
  }
  return id + "-" + hex(hash_name(path)).substr(0, 8);
}

class Lister {
 public:
  void add(const std::string& folder) {
    std::error_code error;
    const fs::path root = fs::canonical(folder, error);
    if (error) return;
    if (holds_run(root.string())) return add_run(folder, root);
    std::vector<fs::path> inside;
    for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
      if (inside.size() == kMostRuns) break;
      const fs::path path = fs::canonical(at->path(), error);
      // A link may lead to another place in the folder, not out of it.
      const bool within = !error && path.parent_path() == root;
      if (within && holds_run(path.string())) inside.push_back(path);
      error.clear();
    }
    std::sort(inside.begin(), inside.end());
    inside.erase(std::unique(inside.begin(), inside.end()), inside.end());
    for (const fs::path& path : inside) {
      add_run((fs::path(folder) / path.filename()).string(), path);
    }
  }

  std::vector<RunEntry> entries;

 private:
  void add_run(const std::string& folder, const fs::path& path) {
    if (!paths_.insert(path.string()).second) return;
    const std::string name = path.filename().string();
    RunEntry entry;
    entry.id = id_of(name, path.string(), ids_);
    entry.name = printable(name);
    entry.folder = printable(folder);
    entry.path = path.string();
    ids_.insert(entry.id);
    entries.push_back(std::move(entry));
  }

  std::set<std::string> ids_, paths_;
};

}  // namespace

RunTable::RunTable(std::vector<std::string> folders) : folders_(std::move(folders)) {
  for (const std::string& folder : folders_) {
    std::error_code error;
    const bool there = fs::is_directory(folder, error);
    require_config(there,
                   "'{}' is no folder: name the directory of a run, such as runs/demo, or a folder "
                   "of them, such as runs",
                   folder);
  }
}

RunTable RunTable::of_default(const std::string& folder) {
  RunTable table;
  table.folders_ = {folder};
  return table;
}

std::vector<RunEntry> RunTable::list() const {
  Lister lister;
  for (const std::string& folder : folders_) lister.add(folder);
  return std::move(lister.entries);
}

std::optional<RunEntry> RunTable::find(std::string_view id) const {
  for (const RunEntry& entry : list()) {
    if (entry.id == id) return entry;
  }
  return std::nullopt;
}

}  // namespace tessera
