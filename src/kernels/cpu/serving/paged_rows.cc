// Rows of a flat list of tokens: positions, the way into the cache, rows that are taken out.
#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/rotate.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kRowGrain = 8;

void check_below(const char* op, const char* what, const Tensor& t, int64_t least, int64_t limit) {
  for (int64_t i = 0; i < t.numel(); ++i) {
    const int32_t value = t.as<int32_t>()[i];
    TESSERA_CHECK(value >= least && value < limit, "{}: {} {} of {}", op, what, value, limit);
  }
}

}  // namespace

void rope_at(Context& ctx, const Tensor& x, const Tensor& positions, const Tensor& cos,
             const Tensor& sin, Tensor& y, int64_t num_heads) {
  constexpr const char* kOp = "rope_at";
  check_below(kOp, "position", positions, 0, cos.dim(0));
  const int64_t width = x.dim(1), half = cos.dim(1);
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    ctx.workers.parallel_for(x.dim(0), kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t angle = positions.as<int32_t>()[t] * half;
        rotate_row(x.as<T>() + t * width, cos.as<A>() + angle, sin.as<A>() + angle, A{1},
                   y.as<T>() + t * width, num_heads, half);
      }
    });
  });
}

void positions_at(Context& ctx, const Tensor& x, const Tensor& table, const Tensor& positions,
                  Tensor& y) {
  constexpr const char* kOp = "positions_at";
  check_below(kOp, "position", positions, 0, table.dim(0));
  const int64_t width = x.dim(1);
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(x.dim(0), kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* in = x.as<T>() + t * width;
        const T* row = table.as<T>() + positions.as<int32_t>()[t] * width;
        T* out = y.as<T>() + t * width;
        // y may be x
        TESSERA_INDEPENDENT
        for (int64_t i = 0; i < width; ++i) out[i] = narrow<T>(widen(in[i]) + widen(row[i]));
      }
    });
  });
}

void take_rows(Context& /*ctx*/, const Tensor& x, const Tensor& rows, Tensor& y) {
  constexpr const char* kOp = "take_rows";
  check_below(kOp, "row", rows, -1, x.dim(0));
  const int64_t bytes = x.dim(1) * size_bytes(x.dtype);
  for (int64_t r = 0; r < rows.numel(); ++r) {
    const int64_t from = rows.as<int32_t>()[r];
    std::byte* const to = y.as<std::byte>() + r * bytes;
    if (from >= 0) {
      std::copy_n(x.as<std::byte>() + from * bytes, bytes, to);
    } else {
      std::fill_n(to, bytes, std::byte{});
    }
  }
}

void cache_write(Context& ctx, const Tensor& kv, const Tensor& positions, const Tensor& slots,
                 const Tensor& cos, const Tensor& sin, Tensor& cache, const PageShape& shape) {
  constexpr const char* kOp = "cache_write";
  const bool turns = cos.data != nullptr;
  check_below(kOp, "slot", slots, -1, cache.dim(0) * shape.page_size);
  if (turns) check_below(kOp, "position", positions, 0, cos.dim(0));
  const int64_t dim = shape.head_dim, width = kv.dim(1), half = dim / 2;
  dispatch(kOp, kv.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    ctx.workers.parallel_for(kv.dim(0), kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t slot = slots.as<int32_t>()[t];
        if (slot < 0) continue;
        const T* keys = kv.as<T>() + t * width;
        const T* values = keys + shape.kv_heads * dim;
        T* const page =
            cache.as<T>() + slot / shape.page_size * shape.width() + slot % shape.page_size * dim;
        const int64_t angle = turns ? positions.as<int32_t>()[t] * half : 0;
        for (int64_t h = 0; h < shape.kv_heads; ++h) {
          T* const key = page + shape.keys_of(h);
          if (turns) {
            rotate_row(keys + h * dim, cos.as<A>() + angle, sin.as<A>() + angle, A{1}, key, 1,
                       half);
          } else {
            std::copy_n(keys + h * dim, dim, key);
          }
          std::copy_n(values + h * dim, dim, page + shape.values_of(h));
        }
      }
    });
  });
}

}  // namespace tessera::kernels::cpu
