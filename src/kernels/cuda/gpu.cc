#include "kernels/cuda/gpu.h"

#include "base/error.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "kernels/cuda/libraries/matmul.h"
#include "tensor/cuda/check.h"

namespace tessera::kernels::cuda {

using tessera::cuda::check;

Gpu::Gpu(Options options) : options_(options) {
  check(cudaSetDevice(options_.device), "choosing the GPU");
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, options_.device),
        "asking for the GPU's multiprocessors");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  check(cudaHostAlloc(reinterpret_cast<void**>(&trouble_), sizeof(Trouble),
                      cudaHostAllocPortable | cudaHostAllocMapped),
        "taking pinned memory of the host");
  *trouble_ = {};
}

Gpu::~Gpu() {
  attention_.reset();
  matmul_.reset();
  (void)cudaStreamDestroy(stream_);
  (void)cudaFreeHost(trouble_);
}

Matmul& Gpu::matmul() {
  if (matmul_ == nullptr) matmul_ = std::make_unique<Matmul>(*this);
  return *matmul_;
}

Attention* Gpu::attention() {
  if (!attention_tried_) {
    attention_tried_ = true;
    try {
      attention_ = std::make_unique<Attention>(*this);
    } catch (const Error&) {
      // `tessera doctor` says why.
    }
  }
  return attention_.get();
}

}  // namespace tessera::kernels::cuda
