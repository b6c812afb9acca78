#include "cli/read_text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

// No file of settings or figures comes near it; a device never ends.
constexpr size_t kMostBytes = size_t{64} << 20;
constexpr size_t kAtOnce = size_t{1} << 20;

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

}  // namespace

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const int reason = errno;
  require_config(file.good(), "cannot open '{}': {}{}", path, std::strerror(reason),
                 file.good() ? "" : near_name(path));
  // A folder opens but cannot be read; an empty file has nothing to copy.
  const bool empty = file.peek() == std::ifstream::traits_type::eof();
  require_config(!file.bad(), "cannot read '{}'", path);
  std::string text;
  for (size_t got = 0; !empty && file; text.resize(got)) {
    require_config(got <= kMostBytes, "'{}' has more than the {} bytes that are read of a file",
                   path, kMostBytes);
    text.resize(got + kAtOnce);
    file.read(text.data() + got, static_cast<std::streamsize>(kAtOnce));
    got += static_cast<size_t>(file.gcount());
  }
  require_config(!file.bad(), "cannot read '{}'", path);
  return text;
}

}  // namespace tessera
