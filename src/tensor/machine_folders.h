// Where a process finds the libraries of GPUs on its machine, and where it keeps what it has
// measured there. The engine reads no environment variables: whoever has a main() does, and says so
// here.
//
// One setting for the whole process, because libraries are: what is opened once, under any path, is
// what every rank of the process gets.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tessera {

struct MachineFolders {
  // Looked into before the loader's own; each may be the `nvidia` folder of Python wheels.
  std::vector<std::string> libraries = {};
  // The toolkit, whose lib64 comes after the loader's own; empty: none.
  std::string cuda_home = "";
  std::string cache = "";  // empty: the working folder
};

// What the variables TESSERA_CUDA_LIBRARIES (folders, separated by ':'), CUDA_HOME and
// TESSERA_CACHE say; without the last one the cache is in XDG_CACHE_HOME or below HOME. `variable`
// gives the value of one, or "".
MachineFolders folders_from(const std::function<std::string(const std::string& name)>& variable);

// Before the first library is opened. Without it, only the usual places are looked into.
void use_folders(MachineFolders folders);
[[nodiscard]] const MachineFolders& machine_folders();

}  // namespace tessera
