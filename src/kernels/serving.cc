#include "kernels/serving.h"

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {
namespace {

void check_tables(const char* op, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  check_dims(op, "cos", cos, 2);
  check_tensor(op, "cos", cos, accumulate_type(x.dtype), {cos.dim(0), cos.dim(1)});
  check_tensor(op, "sin", sin, accumulate_type(x.dtype), {cos.dim(0), cos.dim(1)});
}

void check_integers(const char* op, const char* name, const Tensor& t, int64_t count) {
  check_flat(op, name, t, DType::kI32, count);
}

void check_page(const char* op, const Tensor& cache, DType type, const PageShape& shape) {
  TESSERA_CHECK(shape.kv_heads > 0 && shape.head_dim > 0 && shape.page_size > 0,
                "{}: {} heads of {}, pages of {}", op, shape.kv_heads, shape.head_dim,
                shape.page_size);
  check_dims(op, "cache", cache, 2);
  check_tensor(op, "cache", cache, type, {cache.dim(0), shape.width()});
}

}  // namespace

void serve_linear(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, int64_t chunks) {
  constexpr const char* kOp = "serve_linear";
  check_dims(kOp, "x", x, 2);
  check_dims(kOp, "w", w, 2);
  check_tensor(kOp, "w", w, x.dtype, {w.dim(0), x.dim(1)});
  const bool wide = y.dtype == accumulate_type(x.dtype);
  check_flat(kOp, "y", y, wide ? y.dtype : x.dtype, x.dim(0) * w.dim(0));
  TESSERA_CHECK(chunks > 0, "{}: {} chunks", kOp, chunks);
  bodies_of(ctx).serve_linear(ctx, x, w, y, chunks);
}

void serve_expert_linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& counts,
                         Tensor& y, int64_t chunks) {
  constexpr const char* kOp = "serve_expert_linear";
  check_dims(kOp, "w", w, 3);
  const int64_t rows = x.numel() / w.dim(2);
  check_flat(kOp, "x", x, w.dtype, rows * w.dim(2));
  check_flat(kOp, "y", y, w.dtype, rows * w.dim(1));
  check_flat(kOp, "counts", counts, DType::kI32, counts.numel());
  TESSERA_CHECK(counts.numel() > 0 && counts.dim(counts.num_dims - 1) == w.dim(0) && chunks > 0,
                "{}: {} counts of {} experts, {} chunks", kOp, counts.numel(), w.dim(0), chunks);
  bodies_of(ctx).serve_expert_linear(ctx, x, w, counts, y, chunks);
}

void rope_at(Context& ctx, const Tensor& x, const Tensor& positions, const Tensor& cos,
             const Tensor& sin, Tensor& y, int64_t num_heads) {
  constexpr const char* kOp = "rope_at";
  check_dims(kOp, "x", x, 2);
  check_tables(kOp, x, cos, sin);
  check_integers(kOp, "positions", positions, x.dim(0));
  check_tensor(kOp, "y", y, x.dtype, {x.dim(0), x.dim(1)});
  TESSERA_CHECK(num_heads * 2 * cos.dim(1) == x.dim(1), "{}: {} heads of {} in a row of {}", kOp,
                num_heads, 2 * cos.dim(1), x.dim(1));
  bodies_of(ctx).rope_at(ctx, x, positions, cos, sin, y, num_heads);
}

void positions_at(Context& ctx, const Tensor& x, const Tensor& table, const Tensor& positions,
                  Tensor& y) {
  constexpr const char* kOp = "positions_at";
  check_dims(kOp, "x", x, 2);
  check_dims(kOp, "table", table, 2);
  check_tensor(kOp, "table", table, x.dtype, {table.dim(0), x.dim(1)});
  check_integers(kOp, "positions", positions, x.dim(0));
  check_tensor(kOp, "y", y, x.dtype, {x.dim(0), x.dim(1)});
  bodies_of(ctx).positions_at(ctx, x, table, positions, y);
}

void take_rows(Context& ctx, const Tensor& x, const Tensor& rows, Tensor& y) {
  constexpr const char* kOp = "take_rows";
  check_dims(kOp, "x", x, 2);
  check_dims(kOp, "y", y, 2);
  check_tensor(kOp, "y", y, x.dtype, {y.dim(0), x.dim(1)});
  check_integers(kOp, "rows", rows, y.dim(0));
  bodies_of(ctx).take_rows(ctx, x, rows, y);
}

void cache_write(Context& ctx, const Tensor& kv, const Tensor& positions, const Tensor& slots,
                 const Tensor& cos, const Tensor& sin, Tensor& cache, const PageShape& shape) {
  constexpr const char* kOp = "cache_write";
  check_dims(kOp, "kv", kv, 2);
  check_page(kOp, cache, kv.dtype, shape);
  check_tensor(kOp, "kv", kv, kv.dtype, {kv.dim(0), 2 * shape.kv_heads * shape.head_dim});
  check_integers(kOp, "positions", positions, kv.dim(0));
  check_integers(kOp, "slots", slots, kv.dim(0));
  if (cos.data != nullptr) {
    check_tables(kOp, kv, cos, sin);
    TESSERA_CHECK(2 * cos.dim(1) == shape.head_dim, "{}: angles of {} for heads of {}", kOp,
                  2 * cos.dim(1), shape.head_dim);
  }
  bodies_of(ctx).cache_write(ctx, kv, positions, slots, cos, sin, cache, shape);
}

void paged_attention(Context& ctx, const Tensor& q, const Tensor& cache, const Tensor& first_row,
                     const Tensor& kv_len, const Tensor& pages, Tensor& o,
                     const PagedAttentionShape& shape) {
  constexpr const char* kOp = "paged_attention";
  check_dims(kOp, "q", q, 2);
  check_dims(kOp, "pages", pages, 2);
  check_page(kOp, cache, q.dtype, shape.page);
  check_tensor(kOp, "q", q, q.dtype, {q.dim(0), shape.heads * shape.page.head_dim});
  check_tensor(kOp, "o", o, q.dtype, {q.dim(0), q.dim(1)});
  const int64_t sequences = pages.dim(0);
  check_integers(kOp, "first_row", first_row, sequences + 1);
  check_integers(kOp, "kv_len", kv_len, sequences);
  check_integers(kOp, "pages", pages, sequences * pages.dim(1));
  const int64_t first = shape.first_head / shape.heads_per_kv - shape.first_kv_head;
  const int64_t last =
      (shape.first_head + shape.heads - 1) / shape.heads_per_kv - shape.first_kv_head;
  TESSERA_CHECK(first >= 0 && last < shape.page.kv_heads,
                "{}: query heads need kv heads {} to {} of {} local ones", kOp, first, last,
                shape.page.kv_heads);
  bodies_of(ctx).paged_attention(ctx, q, cache, first_row, kv_len, pages, o, shape);
}

}  // namespace tessera::kernels
