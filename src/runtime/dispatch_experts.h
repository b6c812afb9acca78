// Kernels of a mixture of experts: dispatcher rows.
#pragma once

#include "kernels/experts.h"
#include "runtime/kernel_call.h"

namespace tessera::dispatch {

inline kernels::RouterRows router_rows(const KernelCall& c) {
  return {c.args().experts.first_token, c.args().experts.tokens_per_sequence};
}

inline kernels::BalanceShape balance_shape(const KernelCall& c) {
  const ExpertArgs& args = c.args().experts;
  kernels::BalanceShape shape;
  shape.experts = args.experts;
  shape.layers = args.layers;
  shape.seq_len = args.seq_len;
  shape.group = args.group;
  shape.first_sequence = args.first_sequence;
  shape.coef = args.coef;
  return shape;
}

inline constexpr KernelRow kExpertKernels[] = {
    {OpKind::kRouter,
     [](const KernelCall& c) { kernels::router(c.context, c.in(0), c.out(0), c.out(1)); }},
    {OpKind::kRouterGrad,
     [](const KernelCall& c) {
       kernels::router_grad(c.context, c.in(0), c.in(1), c.in(2), c.out(0), c.adds());
     }},
    {OpKind::kRouterStats,
     [](const KernelCall& c) {
       kernels::router_stats(c.context, c.in(0), c.in(1), router_rows(c), c.out(0), c.out(1),
                             c.adds());
     }},
    {OpKind::kRouterStatsGrad,
     [](const KernelCall& c) {
       kernels::router_stats_grad(c.context, c.in(0), c.in(1), router_rows(c), c.out(0), c.adds());
     }},
    {OpKind::kDispatch,
     [](const KernelCall& c) {
       kernels::dispatch_rows(c.context, c.in(0), c.in(1), c.out(0), c.out(1), c.out(2));
     }},
    {OpKind::kDispatchGrad,
     [](const KernelCall& c) {
       kernels::dispatch_rows_grad(c.context, c.in(0), c.in(1), c.out(0));
     }},
    {OpKind::kExpertLinear,
     [](const KernelCall& c) {
       kernels::expert_linear(c.context, c.in(0), c.in(1), c.in(2), c.out(0));
     }},
    {OpKind::kExpertLinearDx,
     [](const KernelCall& c) {
       kernels::expert_linear_dx(c.context, c.in(0), c.in(1), c.in(2), c.out(0));
     }},
    {OpKind::kExpertLinearDw,
     [](const KernelCall& c) {
       kernels::expert_linear_dw(c.context, c.in(0), c.in(1), c.in(2), c.out(0), c.adds());
     }},
    {OpKind::kExpertSwiGlu,
     [](const KernelCall& c) { kernels::expert_swiglu(c.context, c.in(0), c.in(1), c.out(0)); }},
    {OpKind::kExpertSwiGluGrad,
     [](const KernelCall& c) {
       kernels::expert_swiglu_grad(c.context, c.in(0), c.in(1), c.in(2), c.out(0));
     }},
    {OpKind::kCombine,
     [](const KernelCall& c) {
       kernels::combine_rows(c.context, c.in(0), c.in(1), c.in(2), c.out(0));
     }},
    {OpKind::kCombineGrad,
     [](const KernelCall& c) {
       kernels::combine_rows_grad(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.out(0),
                                  c.out(1));
     }},
    {OpKind::kBalanceTotals,
     [](const KernelCall& c) { kernels::balance_totals(c.context, c.in(0), c.in(1), c.out(0)); }},
    {OpKind::kBalanceLoss,
     [](const KernelCall& c) {
       kernels::balance_loss(c.context, c.in(0), c.in(1), c.args().experts.sequences,
                             balance_shape(c), c.out(0), c.adds());
     }},
    {OpKind::kBalanceGrad,
     [](const KernelCall& c) {
       kernels::balance_grad(c.context, c.in(0), balance_shape(c), c.out(0));
     }},
};

}  // namespace tessera::dispatch
