#include "cli/read_text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

// "; did you mean 'mine.toml'?", where a file of its folder is called nearly so.
std::string near_name(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr size_t kMostEntries = 1000;
  const fs::path wanted(path);
  const fs::path folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  while (!error && entry != fs::directory_iterator() && names.size() < kMostEntries) {
    if (entry->is_regular_file(error)) names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  std::sort(names.begin(), names.end());  // the order of a folder is anybody's
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string nearest = nearest_name(wanted.filename().string(), known);
  if (nearest.empty()) return "";
  return fmt::format("; did you mean '{}'?", (wanted.parent_path() / nearest).string());
}

// Help and documents say examples/demo.toml, as it is called in the source; whoever installed a
// package has it in the share/doc beside the program.
std::string installed_example(const std::string& path) {
  namespace fs = std::filesystem;
  if (!path.starts_with("examples/")) return "";
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path file = program.parent_path().parent_path() / "share/doc/tessera" / path;
  if (error || !fs::is_regular_file(file, error)) return "";
  return fmt::format("; it was installed as '{}'", file.string());
}

// What to open in place of `path`, which cannot be opened; empty where nobody knows.
std::string instead_of(const std::string& path) {
  const std::string installed = installed_example(path);
  return installed.empty() ? near_name(path) : installed;
}

}  // namespace

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const int reason = errno;
  require_config(file.good(), "cannot open '{}': {}{}", path, std::strerror(reason),
                 file.good() ? "" : instead_of(path));
  // A folder opens but cannot be read; an empty file has nothing to copy.
  const bool empty = file.peek() == std::ifstream::traits_type::eof();
  require_config(!file.bad(), "cannot read '{}'", path);
  std::ostringstream text;
  if (!empty) text << file.rdbuf();
  require_config(text.good(), "cannot read '{}'", path);
  return std::move(text).str();
}

}  // namespace tessera
