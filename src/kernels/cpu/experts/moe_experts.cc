// Products and activations of experts: one call of the dense kernel per run of rows of one expert.
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/expert_rows.h"

namespace tessera::kernels::cpu {
void expert_linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& counts,
                   Tensor& y) {
  const ExpertBlocks b = blocks_of("expert_linear", counts, num_rows(x));
  multiply_runs(ctx, b, x, w, y, [&](const Tensor& rows, const Tensor& matrix, Tensor& out) {
    cpu::linear(ctx, rows, matrix, out);
  });
}

void expert_linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& counts,
                      Tensor& dx) {
  const ExpertBlocks b = blocks_of("expert_linear_dx", counts, num_rows(dy));
  multiply_runs(ctx, b, dy, w, dx, [&](const Tensor& rows, const Tensor& matrix, Tensor& out) {
    cpu::linear_dx(ctx, rows, matrix, out, false);
  });
}

void expert_linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& counts,
                      Tensor& dw, bool accumulate) {
  const ExpertBlocks b = blocks_of("expert_linear_dw", counts, num_rows(dy));
  b.for_each_run([&](int64_t block, int64_t expert, int64_t first, int64_t count) {
    const bool add = accumulate || block > 0;  // the first block starts the sum
    if (count == 0 && add) return;
    Tensor out = expert_of(dw, expert);
    cpu::linear_dw(ctx, rows_of(dy, first, count), rows_of(x, first, count), out, add);
  });
}

void expert_swiglu(Context& ctx, const Tensor& gate_up, const Tensor& counts, Tensor& h) {
  const ExpertBlocks b = blocks_of("expert_swiglu", counts, num_rows(gate_up));
  for (int64_t i = 0; i < b.blocks; ++i) {
    Tensor out = rows_of(h, i * b.capacity, b.used(i));
    cpu::swiglu(ctx, rows_of(gate_up, i * b.capacity, b.used(i)), out);
  }
  zero_unused(ctx, b, h);
}

void expert_swiglu_grad(Context& ctx, const Tensor& dh, const Tensor& gate_up, const Tensor& counts,
                        Tensor& d_gate_up) {
  const ExpertBlocks b = blocks_of("expert_swiglu_grad", counts, num_rows(gate_up));
  for (int64_t i = 0; i < b.blocks; ++i) {
    Tensor out = rows_of(d_gate_up, i * b.capacity, b.used(i));
    cpu::swiglu_grad(ctx, rows_of(dh, i * b.capacity, b.used(i)),
                     rows_of(gate_up, i * b.capacity, b.used(i)), out);
  }
  zero_unused(ctx, b, d_gate_up);
}

}  // namespace tessera::kernels::cpu
