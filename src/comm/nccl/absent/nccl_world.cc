// Stands in for the NCCL backend where its headers were not found.
#include "comm/nccl/nccl_world.h"

namespace tessera {

std::string nccl_obstacle() {
  return "this program was built without NCCL: install the CUDA toolkit and NCCL with their "
         "headers, and configure and build again";
}

std::unique_ptr<NcclWorld> make_nccl_world(const NcclWorldOptions&) {
  throw Error(nccl_obstacle());
}

}  // namespace tessera
