#include "tensor/machine_folders.h"

#include <filesystem>
#include <sstream>
#include <utility>

namespace tessera {
namespace {

MachineFolders& chosen() {
  static MachineFolders folders;
  return folders;
}

}  // namespace

MachineFolders folders_from(const std::function<std::string(const std::string&)>& variable) {
  MachineFolders folders;
  std::istringstream list(variable("TESSERA_CUDA_LIBRARIES"));
  for (std::string folder; std::getline(list, folder, ':');) {
    if (!folder.empty()) folders.libraries.push_back(folder);
  }
  folders.cuda_home = variable("CUDA_HOME");
  std::filesystem::path cache = variable("TESSERA_CACHE");
  if (cache.empty() && !variable("XDG_CACHE_HOME").empty()) {
    cache = std::filesystem::path(variable("XDG_CACHE_HOME")) / "tessera";
  }
  if (cache.empty() && !variable("HOME").empty()) {
    cache = std::filesystem::path(variable("HOME")) / ".cache" / "tessera";
  }
  folders.cache = cache.string();
  return folders;
}

void use_folders(MachineFolders folders) { chosen() = std::move(folders); }

const MachineFolders& machine_folders() { return chosen(); }

}  // namespace tessera
