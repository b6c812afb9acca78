// The GPU of one rank, as its kernels see it: the stream that they are put on, and what libraries
// need to keep between calls. One per rank and stream; used by one thread at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

namespace tessera::kernels::cuda {

class Matmul;     // kernels/cuda/libraries/matmul.h
class Attention;  // kernels/cuda/attention/cudnn_attention.h

// What a kernel finds wrong while it runs; the host looks at the end of the step. In memory of the
// host that the GPU writes.
struct Trouble {
  enum Code : int32_t { kNone, kBlockOverflow };
  int32_t code = kNone;
  int32_t detail[3] = {};
};

class Gpu {
 public:
  struct Options {
    int device = 0;
    bool deterministic = true;  // every sum in a fixed order, in libraries too
  };
  explicit Gpu(Options options);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] int device() const { return options_.device; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  [[nodiscard]] bool deterministic() const { return options_.deterministic; }
  [[nodiscard]] Trouble* trouble() const { return trouble_; }

  // Made at the first use; throw Error where the library is missing or too old.
  Matmul& matmul();
  // Null where cuDNN is missing or too old: the kernels of our own serve every shape.
  Attention* attention();

 private:
  Options options_;
  cudaStream_t stream_ = nullptr;
  int multiprocessors_ = 0;
  Trouble* trouble_ = nullptr;
  std::unique_ptr<Matmul> matmul_;
  std::unique_ptr<Attention> attention_;
  bool attention_tried_ = false;
};

}  // namespace tessera::kernels::cuda
