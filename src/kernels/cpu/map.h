// One result per element.
#pragma once

#include "kernels/context.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"

namespace tessera::kernels::cpu {

// out[i] = f(in[i]...), computed in the arithmetic type, shared out by `grain` elements. out may be
// any of the inputs.
template <typename T, typename F, typename... In>
void map(Context& ctx, int64_t count, int64_t grain, T* out, const F& f, const In*... in) {
  ctx.workers.parallel_for(count, grain, [=](int64_t begin, int64_t end) {
    TESSERA_INDEPENDENT
    for (int64_t i = begin; i < end; ++i) out[i] = narrow<T>(f(widen(in[i])...));
  });
}

}  // namespace tessera::kernels::cpu
