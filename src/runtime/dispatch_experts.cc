#include "runtime/dispatch_experts.h"

#include "kernels/experts.h"

namespace tessera {
namespace {

kernels::BalanceShape balance_shape(const ExpertArgs& args) {
  kernels::BalanceShape shape;
  shape.experts = args.experts;
  shape.layers = args.layers;
  shape.seq_len = args.seq_len;
  shape.group = args.group;
  shape.first_sequence = args.first_sequence;
  shape.coef = args.coef;
  return shape;
}

}  // namespace

bool run_expert_kernel(kernels::Context& context, const Instruction& instruction,
                       std::span<const Tensor> tensors) {
  const auto in = [&](size_t i) { return tensors[static_cast<size_t>(instruction.inputs[i])]; };
  const auto out = [&](size_t i) { return tensors[static_cast<size_t>(instruction.outputs[i])]; };
  const ExpertArgs& args = instruction.args.experts;
  const kernels::RouterRows rows{args.first_token, args.tokens_per_sequence};
  const bool add = instruction.accumulate;
  Tensor y = out(0);
  switch (instruction.op) {
    case OpKind::kRouter: {
      Tensor ids = out(1);
      kernels::router(context, in(0), y, ids);
      return true;
    }
    case OpKind::kRouterGrad:
      kernels::router_grad(context, in(0), in(1), in(2), y, add);
      return true;
    case OpKind::kRouterStats: {
      Tensor load = out(1);
      kernels::router_stats(context, in(0), in(1), rows, y, load, add);
      return true;
    }
    case OpKind::kRouterStatsGrad:
      kernels::router_stats_grad(context, in(0), in(1), rows, y, add);
      return true;
    case OpKind::kDispatch: {
      Tensor counts = out(1);
      Tensor slots = out(2);
      kernels::dispatch_rows(context, in(0), in(1), y, counts, slots);
      return true;
    }
    case OpKind::kDispatchGrad:
      kernels::dispatch_rows_grad(context, in(0), in(1), y);
      return true;
    case OpKind::kExpertLinear:
      kernels::expert_linear(context, in(0), in(1), in(2), y);
      return true;
    case OpKind::kExpertLinearDx:
      kernels::expert_linear_dx(context, in(0), in(1), in(2), y);
      return true;
    case OpKind::kExpertLinearDw:
      kernels::expert_linear_dw(context, in(0), in(1), in(2), y, add);
      return true;
    case OpKind::kExpertSwiGlu:
      kernels::expert_swiglu(context, in(0), in(1), y);
      return true;
    case OpKind::kExpertSwiGluGrad:
      kernels::expert_swiglu_grad(context, in(0), in(1), in(2), y);
      return true;
    case OpKind::kCombine:
      kernels::combine_rows(context, in(0), in(1), in(2), y);
      return true;
    case OpKind::kCombineGrad: {
      Tensor d_gates = out(1);
      kernels::combine_rows_grad(context, in(0), in(1), in(2), in(3), y, d_gates);
      return true;
    }
    case OpKind::kBalanceTotals:
      kernels::balance_totals(context, in(0), in(1), y);
      return true;
    case OpKind::kBalanceLoss:
      kernels::balance_loss(context, in(0), in(1), args.sequences, balance_shape(args), y, add);
      return true;
    case OpKind::kBalanceGrad: {
      kernels::BalanceShape shape = balance_shape(args);
      kernels::balance_grad(context, in(0), shape, y);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace tessera
