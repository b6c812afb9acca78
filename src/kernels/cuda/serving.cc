// Serving on a GPU is not there yet: the compiler refuses it before anything runs.
#include "kernels/serving.h"

#include "base/error.h"
#include "kernels/cuda/bodies.h"

namespace tessera::kernels::cuda {
namespace {

[[noreturn]] void refuse(const char* op) {
  throw Error(fmt::format("{}: there is no kernel for a GPU; serve with device = \"cpu\"", op));
}

}  // namespace

void serve_linear(Context&, const Tensor&, const Tensor&, Tensor&, int64_t) {
  refuse("serve_linear");
}
void serve_expert_linear(Context&, const Tensor&, const Tensor&, const Tensor&, Tensor&, int64_t) {
  refuse("serve_expert_linear");
}
void rope_at(Context&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, Tensor&,
             int64_t) {
  refuse("rope_at");
}
void positions_at(Context&, const Tensor&, const Tensor&, const Tensor&, Tensor&) {
  refuse("positions_at");
}
void take_rows(Context&, const Tensor&, const Tensor&, Tensor&) { refuse("take_rows"); }
void cache_write(Context&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                 const Tensor&, Tensor&, const PageShape&) {
  refuse("cache_write");
}
void paged_attention(Context&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                     const Tensor&, Tensor&, const PagedAttentionShape&) {
  refuse("paged_attention");
}

}  // namespace tessera::kernels::cuda
