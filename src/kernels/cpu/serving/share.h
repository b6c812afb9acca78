// Which work of a step is shared among the threads of a rank, and which one of them does alone.
#pragma once

#include <cstdint>

#include "kernels/context.h"

namespace tessera::kernels::cpu {

// Multiply-adds that are done before another thread would have begun: below, a share saves less
// than it costs, and on a machine that has other work each share waits until that thread is let in.
inline constexpr int64_t kWorthSharing = int64_t{1} << 15;

// Calls part(member, members) on every thread, or part(0, 1) here. What is computed must not depend
// on how many members there are.
template <typename Part>
void share(Context& ctx, int64_t multiply_adds, const Part& part) {
  if (multiply_adds < kWorthSharing) return part(0, 1);
  ctx.workers.run([&](int member) { part(member, ctx.workers.size()); });
}

}  // namespace tessera::kernels::cpu
