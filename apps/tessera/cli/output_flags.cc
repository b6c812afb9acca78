#include "cli/output_flags.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "cli/flags.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

void require_folder(const std::string& flag, const std::string& path, const fs::path& folder) {
  std::error_code error;
  require_config(fs::exists(folder, error),
                 "{} is '{}', but there is no folder '{}': make it, or choose another place", flag,
                 path, folder.string());
  require_config(fs::is_directory(folder, error), "{} is '{}', but '{}' is no folder", flag, path,
                 folder.string());
  require_config(access(folder.c_str(), W_OK) == 0,
                 "{} is '{}', but '{}' cannot be written in: choose another place", flag, path,
                 folder.string());
}

bool ends_well(const std::string& path, const OutputKind& kind) {
  const std::vector<std::string> endings = split_choices(kind.endings);
  return std::any_of(endings.begin(), endings.end(),
                     [&](const std::string& ending) { return path.ends_with(ending); });
}

}  // namespace

void check_output_file(const std::string& flag, const std::string& path, const OutputKind& kind) {
  std::error_code error;
  if (path == "-" && kind.dash_is_stdout) return;
  require_config(path != "-", "{} is '-': name a file; standard output is /dev/stdout", flag);
  const fs::path file(path);
  const fs::file_status status = fs::status(file, error);
  require_config(!fs::is_directory(status),
                 "{} is '{}', which is a folder: name a file, such as {}", flag, path,
                 (file / kind.example).string());
  if (fs::exists(status) && !fs::is_regular_file(status)) return;
  const bool there = fs::exists(status);
  const bool named = kind.any_new_name || file.extension().empty();
  require_config(ends_well(path, kind) || (named && !there),
                 "{} writes {}, and '{}' {}: choose a name that ends in {}", flag, kind.what, path,
                 there ? "is a file of another kind" : "is the name of another kind of file",
                 split_choices(kind.endings).front());
  require_folder(flag, path, file.has_parent_path() ? file.parent_path() : fs::path("."));
}

void check_output_folder(const std::string& flag, const std::string& path) {
  std::error_code error;
  fs::path at = fs::absolute(fs::path(path), error).lexically_normal();
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  const bool is_folder = fs::is_directory(at, error);
  require_config(is_folder, "{} is '{}', but '{}' is no folder: choose another place", flag, path,
                 at.string());
  require_config(access(at.c_str(), W_OK) == 0,
                 "{} is '{}', but '{}' cannot be written in: choose another place", flag, path,
                 at.string());
}

CLI::Option* add_output_file(CLI::App& app, const std::string& name, std::string& target,
                             const OutputKind& kind, const std::string& shown,
                             const std::string& description) {
  const std::string flag = name.substr(name.rfind(',') + 1);
  return add_checked_text(app, name, target, shown, description,
                          [=](const std::string& path) { check_output_file(flag, path, kind); });
}

CLI::Option* add_output_folder(CLI::App& app, const std::string& name, std::string& target,
                               const std::string& description) {
  return add_checked_text(app, name, target, "DIR", description,
                          [=](const std::string& path) { check_output_folder(name, path); });
}

}  // namespace tessera
