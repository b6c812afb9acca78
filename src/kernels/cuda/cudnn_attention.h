// Attention by cuDNN, for the shapes that it serves.
#pragma once

namespace tessera::kernels::cuda {

class Gpu;

class Attention {
 public:
  explicit Attention(const Gpu& gpu) { static_cast<void>(gpu); }
};

}  // namespace tessera::kernels::cuda
