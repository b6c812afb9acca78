// Matrix products by cuBLASLt.
#pragma once

namespace tessera::kernels::cuda {

class Gpu;

class Matmul {
 public:
  explicit Matmul(const Gpu& gpu) { static_cast<void>(gpu); }
};

}  // namespace tessera::kernels::cuda
