// Kernels of serving: dispatcher rows.
#pragma once

#include "kernels/serving.h"
#include "runtime/kernel_call.h"

namespace tessera::dispatch {

inline kernels::PageShape page_shape(const KernelArgs& args, int64_t kv_heads) {
  return {kv_heads, args.head_dim, args.page_size};
}

inline kernels::PagedAttentionShape paged_attention_shape(const KernelArgs& args) {
  kernels::PagedAttentionShape shape;
  shape.page = page_shape(args, args.kv_heads);
  shape.heads = args.heads;
  shape.heads_per_kv = args.heads_per_kv;
  shape.first_head = args.first_head;
  shape.first_kv_head = args.first_kv_head;
  shape.window = args.window;
  return shape;
}

inline void serve_linear(const KernelCall& c) {
  kernels::serve_linear(c.context, c.in(0), c.in(1), c.out(0), c.args().chunks);
}

inline constexpr KernelRow kServingKernels[] = {
    {OpKind::kServeLinear, serve_linear},
    {OpKind::kServeLogits, serve_linear},
    {OpKind::kServeExpertLinear,
     [](const KernelCall& c) {
       kernels::serve_expert_linear(c.context, c.in(0), c.in(1), c.in(2), c.out(0),
                                    c.args().chunks);
     }},
    {OpKind::kRopeAt,
     [](const KernelCall& c) {
       kernels::rope_at(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.out(0), c.args().heads);
     }},
    {OpKind::kPositionsAt,
     [](const KernelCall& c) {
       kernels::positions_at(c.context, c.in(0), c.in(1), c.in(2), c.out(0));
     }},
    {OpKind::kTakeRows,
     [](const KernelCall& c) { kernels::take_rows(c.context, c.in(0), c.in(1), c.out(0)); }},
    // The cache is its first input and its output.
    {OpKind::kCacheWrite,
     [](const KernelCall& c) {
       kernels::cache_write(c.context, c.in(1), c.in(2), c.in(3), c.in_if_any(4), c.in_if_any(5),
                            c.out(0), page_shape(c.args(), c.args().heads));
     }},
    {OpKind::kPagedAttention,
     [](const KernelCall& c) {
       kernels::paged_attention(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.in(4), c.out(0),
                                paged_attention_shape(c.args()));
     }},
};

}  // namespace tessera::dispatch
