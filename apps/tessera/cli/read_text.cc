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

// What to name in the place of a folder, where something in it can be read.
std::string inside_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path run_file = fs::path(path) / "resolved.toml";
  if (fs::exists(run_file, error)) return fmt::format(": its run file is '{}'", run_file.string());
  if (!fs::exists(fs::path(path) / "config.json", error)) return ": name a file in it";
  return fmt::format(
      ": plan, search and simulate take a Hugging Face folder by --model {0}, run files by hf = "
      "\"{0}\" in [model]",
      path);
}

}  // namespace

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const int reason = errno;
  require_config(file.good(), "cannot open '{}': {}{}", path, std::strerror(reason),
                 file.good() ? "" : near_name(path));
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  require_config(!folder, "'{}' is a folder{}", path, folder ? inside_of(path) : "");
  // An empty file has nothing to copy.
  const bool empty = file.peek() == std::ifstream::traits_type::eof();
  require_config(!file.bad(), "cannot read '{}'", path);
  std::ostringstream text;
  if (!empty) text << file.rdbuf();
  require_config(text.good(), "cannot read '{}'", path);
  return std::move(text).str();
}

}  // namespace tessera
