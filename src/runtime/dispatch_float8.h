// Kernels of products of 8 bits: dispatcher rows.
#pragma once

#include "kernels/float8.h"
#include "runtime/kernel_call.h"

namespace tessera::dispatch {

// The first or the second matrix of a product: its codes, and behind them its amax.
inline kernels::Float8Matrix float8_matrix(const KernelCall& c, size_t i) {
  return {c.in(2 * i), c.in(2 * i + 1), c.args().scaling[i]};
}

inline constexpr KernelRow kFloat8Kernels[] = {
    {OpKind::kAmax,
     [](const KernelCall& c) { kernels::amax(c.context, c.in(0), c.out(0), c.args().scaling[0]); }},
    {OpKind::kQuantise,
     [](const KernelCall& c) {
       kernels::quantise(c.context, c.in(0), c.in(1), c.out(0), c.args().scaling[0]);
     }},
    {OpKind::kFp8Linear,
     [](const KernelCall& c) {
       kernels::fp8_linear(c.context, float8_matrix(c, 0), float8_matrix(c, 1), c.out(0));
     }},
    {OpKind::kFp8LinearDx,
     [](const KernelCall& c) {
       kernels::fp8_linear_dx(c.context, float8_matrix(c, 0), float8_matrix(c, 1), c.out(0),
                              c.adds());
     }},
    {OpKind::kFp8LinearDw,
     [](const KernelCall& c) {
       kernels::fp8_linear_dw(c.context, float8_matrix(c, 0), float8_matrix(c, 1), c.out(0),
                              c.args().dtype, c.adds());
     }},
};

}  // namespace tessera::dispatch
