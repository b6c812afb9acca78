// Bodies that are still to be written. Deleted when there are none.
#include "base/error.h"
#include "kernels/cuda/bodies.h"

namespace tessera::kernels::cuda {
namespace {
[[noreturn]] void missing(const char* op) {
  throw InternalError(fmt::format("{}: no CUDA body yet", op));
}
}  // namespace


}  // namespace tessera::kernels::cuda
