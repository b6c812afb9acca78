#include "kernels/cuda/library.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "kernels/gpu_libraries.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kOldestCublasLt = std::max(120400, CUBLAS_VER_MAJOR * 10000);
constexpr int kOldestCudnn = 90500;
constexpr int kOldestNccl = 21800;

// 91900 -> "9.19.0"
std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}
// 13000 -> "13.0", of CUDA itself
std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// Folders of the user's choice, and the `lib` folders of Python wheels below them.
std::vector<std::string> chosen_folders() {
  std::vector<std::string> folders;
  const char* const chosen = std::getenv("TESSERA_CUDA_LIBRARIES");
  std::istringstream list(chosen == nullptr ? "" : chosen);
  for (std::string folder; std::getline(list, folder, ':');) {
    if (folder.empty()) continue;
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
  if (const char* const home = std::getenv("CUDA_HOME"); home != nullptr) {
    paths.push_back(fmt::format("{}/lib64/{}", home, soname));
  }
  paths.push_back("/usr/local/cuda/lib64/" + soname);
  return paths;
}

// Null where there is none; `why` is then what the loader said of the first that exists.
void* try_open(const std::string& soname, std::string& why) {
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

void* open_library(const std::string& soname, const char* package) {
  std::string why;
  void* const handle = try_open(soname, why);
  require(handle != nullptr,
          "{} cannot be opened ({}): install {}, or name its folder in TESSERA_CUDA_LIBRARIES",
          soname, why, package);
  return handle;
}

template <typename Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  require(function != nullptr, "{} is not in the library: it is too old for this program", name);
}

void require_version(const char* package, int found, int needed) {
  require(found >= needed,
          "{}: found {}, need at least {}: install a newer one, or name its folder in "
          "TESSERA_CUDA_LIBRARIES",
          package, version_text(found), version_text(needed));
}

}  // namespace

std::shared_ptr<const CublasLt> load_cublaslt() {
  const auto table = std::make_shared<CublasLt>();
  void* const library = open_library(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR),
                                     "cuBLAS of the CUDA toolkit");
#define TESSERA_LOOK_UP(name) look_up(library, #name, table->name);
  TESSERA_CUBLASLT_FUNCTIONS(TESSERA_LOOK_UP)
  table->version = static_cast<int>(table->cublasLtGetVersion());
  require_version("cuBLASLt", table->version, kOldestCublasLt);
  return table;
}

std::shared_ptr<const Cudnn> load_cudnn() {
  // cuDNN opens the run-time compiler by its bare name: found here, it need not be on the loader's
  // path.
  std::string ignored;
  (void)try_open(fmt::format("libnvrtc.so.{}", CUDART_VERSION / 1000), ignored);
  const auto table = std::make_shared<Cudnn>();
  void* const library = open_library(fmt::format("libcudnn.so.{}", CUDNN_MAJOR), "cuDNN");
  TESSERA_CUDNN_FUNCTIONS(TESSERA_LOOK_UP)
#undef TESSERA_LOOK_UP
  table->version = static_cast<int>(table->cudnnGetVersion());
  require_version("cuDNN", table->version, kOldestCudnn);
  return table;
}

void CublasLt::check(cublasStatus_t status, const char* what) const {
  require(status == CUBLAS_STATUS_SUCCESS, "{}: {}", what, cublasLtGetStatusString(status));
}

void Cudnn::check(cudnnStatus_t status, const char* what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> last{};
  cudnnGetLastErrorString(last.data(), last.size());
  throw Error(fmt::format("{}: {}; {}", what, cudnnGetErrorString(status), last.data()));
}

}  // namespace tessera::kernels::cuda

namespace tessera::kernels {
namespace {

using cuda::cuda_version_text;

GpuLibrary inspect_driver() {
  constexpr int kNeeded = CUDART_VERSION / 1000 * 1000;
  GpuLibrary driver{"driver", "", cuda_version_text(kNeeded), ""};
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
    driver.why_not = "there is no NVIDIA driver: install one";
    return driver;
  }
  driver.found = cuda_version_text(version);
  if (version < kNeeded) {
    driver.why_not = fmt::format("found a driver for CUDA {}, need at least {}: update the driver",
                                 driver.found, driver.needed);
  }
  return driver;
}

GpuLibrary inspect_runtime() {
  int version = 0;
  (void)cudaRuntimeGetVersion(&version);  // it is part of this program
  return {"CUDA runtime", cuda_version_text(version), "12.4", ""};
}

// `load` gives a version, or throws Error with one in its words.
GpuLibrary inspect(const char* name, int needed, const std::function<int()>& load) {
  GpuLibrary library{name, "", cuda::version_text(needed), ""};
  try {
    library.found = cuda::version_text(load());
  } catch (const std::exception& error) {
    library.why_not = error.what();
  }
  return library;
}

int load_nccl() {
  void* const library = cuda::open_library("libnccl.so.2", "NCCL");
  int (*get_version)(int*) = nullptr;
  cuda::look_up(library, "ncclGetVersion", get_version);
  int version = 0;
  get_version(&version);
  cuda::require_version("NCCL", version, cuda::kOldestNccl);
  return version;
}

}  // namespace

std::vector<GpuLibrary> gpu_libraries() {
  return {inspect_driver(), inspect_runtime(),
          inspect("cuBLASLt", cuda::kOldestCublasLt, [] { return cuda::load_cublaslt()->version; }),
          inspect("cuDNN", cuda::kOldestCudnn, [] { return cuda::load_cudnn()->version; }),
          inspect("NCCL", cuda::kOldestNccl, load_nccl)};
}

}  // namespace tessera::kernels
