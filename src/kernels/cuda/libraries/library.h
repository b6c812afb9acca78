// The functions of cuBLASLt and cuDNN that the kernels call, as tables: the libraries are opened
// when they are first needed, so a program on a machine without them starts all the same.
// tensor/shared_library.h says where they are looked for.
#pragma once

#include <cublasLt.h>
#include <cudnn_graph.h>

#include <memory>
#include <string>

#include "tensor/shared_library.h"

#define TESSERA_CUBLASLT_FUNCTIONS(X)     \
  X(cublasLtGetVersion)                   \
  X(cublasLtGetStatusString)              \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)

#define TESSERA_CUDNN_FUNCTIONS(X) \
  X(cudnnGetVersion)               \
  X(cudnnGetErrorString)           \
  X(cudnnGetLastErrorString)       \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendExecute)

namespace tessera::kernels::cuda {

#define TESSERA_MEMBER(name) decltype(&::name) name = nullptr;
struct CublasLt {
  TESSERA_CUBLASLT_FUNCTIONS(TESSERA_MEMBER)
  int version = 0;  // 130100: 13.1.0

  // Throws Error: "`what`: the words of cuBLASLt".
  void check(cublasStatus_t status, const char* what) const;
};
struct Cudnn {
  TESSERA_CUDNN_FUNCTIONS(TESSERA_MEMBER)
  int version = 0;  // 91900: 9.19.0

  // Throws Error: "`what`: the words of cuDNN".
  void check(cudnnStatus_t status, const char* what) const;
};
#undef TESSERA_MEMBER

// Throw Error: what is missing, or what was found and what is needed, and what to do.
std::shared_ptr<const CublasLt> load_cublaslt(const TryOpen& try_open = try_open_library);
std::shared_ptr<const Cudnn> load_cudnn(const TryOpen& try_open = try_open_library);

}  // namespace tessera::kernels::cuda
