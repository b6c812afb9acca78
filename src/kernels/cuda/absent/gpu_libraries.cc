// Stands in where CUDA was not found at build time.
#include "kernels/gpu_libraries.h"

namespace tessera::kernels {

std::vector<GpuLibrary> gpu_libraries() {
  return {{"CUDA", "", "12.4",
           "this program was built without CUDA: configure it with -DTESSERA_CUDA=on where nvcc is "
           "installed"}};
}

}  // namespace tessera::kernels
