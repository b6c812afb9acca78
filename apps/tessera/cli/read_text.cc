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
  if (nearest.empty() || wanted.filename() == nearest) return "";  // it is there, and not for us
  return fmt::format("; did you mean '{}'?", (wanted.parent_path() / nearest).string());
}

// What other shells and systems would have made of the path.
std::string of_another_shell(const std::string& path) {
  if (path.find("://") != std::string::npos) return "; nothing is fetched: give a path";
  if (path.find('\\') != std::string::npos) return "; write the path with /";
  return path.starts_with("~") ? "; the shell puts the home folder only for a ~ without quotes"
                               : "";
}

// What a folder was probably named for: ": the run file of this run is '…/resolved.toml'".
std::string inside(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder(path);
  std::error_code error;
  if (fs::exists(folder / "resolved.toml", error)) {
    return fmt::format(": the run file of this run is '{}'", (folder / "resolved.toml").string());
  }
  if (fs::exists(folder / "config.json", error)) {
    return ": a Hugging Face folder is a model, --model or model.hf";
  }
  std::vector<std::string> files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".toml") files.push_back(entry->path().string());
  }
  if (files.empty()) return ": name a file";
  return fmt::format(": name a file, such as '{}'", *std::min_element(files.begin(), files.end()));
}

// What is read more than once has to be a file; a pipe is empty the second time.
void require_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  require_config(!std::filesystem::is_directory(status), "'{}' is a folder{}", path,
                 std::filesystem::is_directory(status) ? inside(path) : "");
  require_config(path != "-" && !std::filesystem::is_fifo(status),
                 "'{}' is a stream, which can be read only once: write it to a file and name that",
                 path);
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
  return installed.empty() ? near_name(path) + of_another_shell(path) : installed;
}

}  // namespace

std::string read_text(const std::string& path) {
  require_file(path);
  std::ifstream file(path, std::ios::binary);
  const int reason = errno;
  require_config(file.good(), "cannot open '{}': {}{}", path, std::strerror(reason),
                 file.good() ? "" : instead_of(path));
  // An empty file has nothing to copy.
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
