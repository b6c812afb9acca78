// Tokens to the rows of their experts, and back.
#include <algorithm>

#include "base/workspace.h"
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kTokenGrain = 8;

int64_t width_of(const Tensor& rows) { return rows.dim(rows.num_dims - 1); }

void check_slots(const char* op, const Tensor& slots, int64_t num_rows) {
  for (int64_t i = 0; i < slots.numel(); ++i) {
    const int32_t slot = slots.as<int32_t>()[i];
    TESSERA_CHECK(slot >= 0 && slot < num_rows, "{}: row {} of {}", op, slot, num_rows);
  }
}

// counts, and the first row of every expert of every peer.
void count_rows(const int32_t* ids, int64_t num_ids, int64_t peers, int64_t local, int64_t capacity,
                int32_t* counts, int64_t* next) {
  std::fill_n(counts, peers * local, 0);
  for (int64_t i = 0; i < num_ids; ++i) {
    TESSERA_CHECK(ids[i] >= 0 && ids[i] < peers * local, "dispatch_rows: expert {} of {}", ids[i],
                  peers * local);
    ++counts[ids[i]];
  }
  for (int64_t p = 0; p < peers; ++p) {
    int64_t at = p * capacity;
    for (int64_t e = p * local; e < (p + 1) * local; ++e) {
      next[e] = at;
      at += counts[e];
    }
    const int64_t used = at - p * capacity;
    require(used <= capacity,
            "the router chose experts {} to {} for {} rows, but parallel.moe_capacity leaves room "
            "for {}; use moe_capacity = {:.2f} or more, or 0 for the worst case",
            p * local, (p + 1) * local - 1, used, capacity,
            static_cast<double>(used * peers) / static_cast<double>(num_ids) + 0.005);
  }
}

}  // namespace

void dispatch_rows(Context& ctx, const Tensor& x, const Tensor& ids, Tensor& rows, Tensor& counts,
                   Tensor& slots) {
  constexpr const char* kOp = "dispatch_rows";
  const int64_t tokens = x.dim(0), width = x.dim(1), k = ids.dim(1);
  const int64_t local = width_of(counts), peers = counts.numel() / local;
  const int64_t capacity = rows.numel() / width / peers;
  Scratch scratch(kOp, ctx.workspace, workspace::dispatch_rows(peers * local));
  auto* next = scratch.take<int64_t>(peers * local);
  count_rows(ids.as<int32_t>(), tokens * k, peers, local, capacity, counts.as<int32_t>(), next);
  for (int64_t i = 0; i < tokens * k; ++i) {
    slots.as<int32_t>()[i] = static_cast<int32_t>(next[ids.as<int32_t>()[i]]++);
  }
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = rows.as<T>();
    for (int64_t p = 0; p < peers; ++p) {
      const int64_t used_until = next[(p + 1) * local - 1];
      std::fill(out + used_until * width, out + (p + 1) * capacity * width, T{});
    }
    ctx.workers.parallel_for(tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * k; i < end * k; ++i) {
        std::copy_n(x.as<T>() + i / k * width, width, out + slots.as<int32_t>()[i] * width);
      }
    });
  });
}

void dispatch_rows_grad(Context& ctx, const Tensor& d_rows, const Tensor& slots, Tensor& dx) {
  constexpr const char* kOp = "dispatch_rows_grad";
  const int64_t tokens = dx.dim(0), width = dx.dim(1), k = slots.dim(1);
  check_slots(kOp, slots, d_rows.numel() / width);
  dispatch(kOp, dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int32_t* at = slots.as<int32_t>() + t * k;
        T* out = dx.as<T>() + t * width;
        for (int64_t c = 0; c < width; ++c) {
          Acc<T> sum{0};
          for (int64_t j = 0; j < k; ++j) sum += widen(d_rows.as<T>()[at[j] * width + c]);
          out[c] = narrow<T>(sum);
        }
      }
    });
  });
}

void combine_rows(Context& ctx, const Tensor& rows, const Tensor& slots, const Tensor& gates,
                  Tensor& y) {
  constexpr const char* kOp = "combine_rows";
  const int64_t tokens = y.dim(0), width = y.dim(1), k = gates.dim(1);
  check_slots(kOp, slots, rows.numel() / width);
  dispatch(kOp, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int32_t* at = slots.as<int32_t>() + t * k;
        const Acc<T>* gate = gates.as<Acc<T>>() + t * k;
        T* out = y.as<T>() + t * width;
        for (int64_t c = 0; c < width; ++c) {
          Acc<T> sum{0};
          for (int64_t j = 0; j < k; ++j) {
            sum += gate[j] * widen(rows.as<T>()[at[j] * width + c]);
          }
          out[c] = narrow<T>(sum);
        }
      }
    });
  });
}

void combine_rows_grad(Context& ctx, const Tensor& dy, const Tensor& rows, const Tensor& slots,
                       const Tensor& gates, Tensor& d_rows, Tensor& d_gates) {
  constexpr const char* kOp = "combine_rows_grad";
  const int64_t tokens = dy.dim(0), width = dy.dim(1), k = gates.dim(1);
  check_slots(kOp, slots, rows.numel() / width);
  cpu::fill_zero(ctx, d_rows);
  dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    ctx.workers.parallel_for(tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * k; i < end * k; ++i) {
        const T* in = dy.as<T>() + i / k * width;
        const int64_t at = slots.as<int32_t>()[i] * width;
        const T* row = rows.as<T>() + at;
        T* out = d_rows.as<T>() + at;
        const A gate = gates.as<A>()[i];
        d_gates.as<A>()[i] =
            lane_sum<A>(width, [&](int64_t c) { return widen(in[c]) * widen(row[c]); });
        for (int64_t c = 0; c < width; ++c) out[c] = narrow<T>(gate * widen(in[c]));
      }
    });
  });
}

}  // namespace tessera::kernels::cpu
