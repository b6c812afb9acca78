#include "base/error.h"
#include "comm/device.h"

namespace tessera {

std::unique_ptr<Device> make_gpu_device(int gpu) {
  throw Error(
      fmt::format("no ranks on GPU {}: this program was built without CUDA; "
                  "use train.device = \"cpu\"",
                  gpu));
}

}  // namespace tessera
