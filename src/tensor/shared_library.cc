#include "tensor/shared_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "tensor/machine_folders.h"

namespace tessera {
namespace {

// Folders of the user's choice, and the `lib` folders of Python wheels below them.
std::vector<std::string> chosen_folders() {
  std::vector<std::string> folders;
  for (const std::string& folder : machine_folders().libraries) {
    folders.push_back(folder);
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (const auto lib = entry.path() / "lib"; std::filesystem::is_directory(lib, ignored)) {
        folders.push_back(lib.string());
      }
    }
  }
  return folders;
}

// Every name under which the library may be opened, best first.
std::vector<std::string> candidates(const std::string& soname) {
  std::vector<std::string> paths;
  for (const std::string& folder : chosen_folders()) paths.push_back(folder + "/" + soname);
  paths.push_back(soname);
  if (const std::string& home = machine_folders().cuda_home; !home.empty()) {
    paths.push_back(fmt::format("{}/lib64/{}", home, soname));
  }
  paths.push_back("/usr/local/cuda/lib64/" + soname);
  return paths;
}

}  // namespace

void* try_open_library(const std::string& soname, std::string& why) {
  for (const std::string& path : candidates(soname)) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != nullptr) return handle;
    const char* const words = dlerror();
    std::error_code ignored;
    const bool exists = std::filesystem::exists(path, ignored);
    if (why.empty() && exists && words != nullptr) why = words;
  }
  if (why.empty()) why = "it was not found";
  return nullptr;
}

void* open_library(const std::string& soname, const std::string& package, const TryOpen& try_open) {
  std::string why;
  void* const handle = try_open(soname, why);
  require(handle != nullptr,
          "{} cannot be opened ({}): install {}, or name its folder in TESSERA_CUDA_LIBRARIES",
          soname, why, package);
  return handle;
}

void* find_function(void* library, const char* name) {
  void* const function = dlsym(library, name);
  require(function != nullptr, "{} is not in the library: it is too old for this program", name);
  return function;
}

void require_version(const std::string& package, int found, int needed) {
  require(found >= needed,
          "{}: found {}, need at least {}: install a newer one, or name its folder in "
          "TESSERA_CUDA_LIBRARIES",
          package, version_text(found), version_text(needed));
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace tessera
