#include "kernels/cuda/libraries/library.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/error.h"
#include "kernels/gpu_libraries.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kOldestCublasLt = std::max(120400, CUBLAS_VER_MAJOR * 10000);
constexpr int kOldestCudnn = 90500;
constexpr int kOldestNccl = 21800;

// 13000 -> "13.0", of CUDA itself
std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

std::shared_ptr<const CublasLt> load_cublaslt(const TryOpen& try_open) {
  const auto table = std::make_shared<CublasLt>();
  void* const library = open_library(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR),
                                     "cuBLAS of the CUDA toolkit", try_open);
#define TESSERA_LOOK_UP(name) look_up(library, #name, table->name);
  TESSERA_CUBLASLT_FUNCTIONS(TESSERA_LOOK_UP)
  table->version = static_cast<int>(table->cublasLtGetVersion());
  require_version("cuBLASLt", table->version, kOldestCublasLt);
  return table;
}

std::shared_ptr<const Cudnn> load_cudnn(const TryOpen& try_open) {
  // cuDNN opens the run-time compiler by its bare name: found here, it need not be on the loader's
  // path.
  std::string ignored;
  (void)try_open_library(fmt::format("libnvrtc.so.{}", CUDART_VERSION / 1000), ignored);
  const auto table = std::make_shared<Cudnn>();
  void* const library = open_library(fmt::format("libcudnn.so.{}", CUDNN_MAJOR), "cuDNN", try_open);
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
  GpuLibrary library{name, "", version_text(needed), ""};
  try {
    library.found = version_text(load());
  } catch (const std::exception& error) {
    library.why_not = error.what();
  }
  return library;
}

int load_nccl() {
  void* const library = open_library("libnccl.so.2", "NCCL");
  int (*get_version)(int*) = nullptr;
  look_up(library, "ncclGetVersion", get_version);
  int version = 0;
  get_version(&version);
  require_version("NCCL", version, cuda::kOldestNccl);
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
