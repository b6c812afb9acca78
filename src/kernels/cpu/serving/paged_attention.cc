// Causal attention to the keys in pages. A task is some queries of a sequence for one kv head. Keys
// come in tiles by absolute position, and a query takes each tile by itself, key after key and
// column after column, so that what it gets does not depend on the queries beside it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/rounding.h"
#include "base/workspace.h"
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/serving/level.h"
#include "kernels/cpu/serving/share.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kTile = workspace::kPageTile;
constexpr int64_t kRows = workspace::kQueryRows;

// The tensors of one call.
template <typename T>
struct Tensors {
  const T* q;
  const T* cache;
  const int32_t* first_row;
  const int32_t* kv_len;
  const int32_t* pages;
  int64_t pages_per_sequence;
  T* o;
};

// Queries [first, first + count) of the flat list, of a sequence, for one kv head; rows are stacked
// by query, then by head.
struct Task {
  int64_t sequence, kv_head, first, count;
  int64_t position;           // of the first of them
  int64_t first_head, heads;  // of this rank, that use the kv head
  [[nodiscard]] int64_t rows() const { return count * heads; }
};

// The loops for arithmetic in A.
template <typename A>
const levels::PagedRows<A>& loops() {
  if constexpr (std::is_same_v<A, float>) return serving_level().paged_f32;
  if constexpr (std::is_same_v<A, double>) return serving_level().paged_f64;
}

// One member's scratch; width is head_dim, filled up to whole vectors.
template <typename A>
struct Buffers {
  int64_t width;
  A* keys;     // [width, kTile], transposed
  A* values;   // [kTile, width]
  A* queries;  // [rows, width], scaled
  A* out;      // [rows, width]
  A* scores;   // [rows, kTile]
  A* sums;     // [rows]
  A* tops;     // [rows]

  Buffers(Scratch& scratch, int64_t head_dim)
      : width(round_up(head_dim, levels::kPagedRowBytes / static_cast<int64_t>(sizeof(A)))) {
    keys = scratch.take<A>(width * kTile);
    values = scratch.take<A>(width * kTile);
    queries = scratch.take<A>(kRows * width);
    out = scratch.take<A>(kRows * width);
    scores = scratch.take<A>(kRows * kTile);
    sums = scratch.take<A>(kRows);
    tops = scratch.take<A>(kRows);
  }
};

// The keys and values of [begin, end), less than kTile of them, by their places in the tile.
template <typename T>
void load_tile(const Tensors<T>& x, const PagedAttentionShape& shape, const Task& task,
               int64_t begin, int64_t end, const Buffers<Acc<T>>& buf) {
  using A = Acc<T>;
  const PageShape& page = shape.page;
  const int64_t dim = page.head_dim;
  const int32_t* pages = x.pages + task.sequence * x.pages_per_sequence;
  for (int64_t p = begin; p < end;) {
    const int64_t inside = p % page.page_size;
    const int64_t count = std::min(page.page_size - inside, end - p);
    const T* const at = x.cache + pages[p / page.page_size] * page.width() + inside * dim;
    const T* const keys = at + page.keys_of(task.kv_head);
    const T* const values = at + page.values_of(task.kv_head);
    const int64_t place = p % kTile;
    for (int64_t i = 0; i < count; ++i) {
      A* const to = buf.values + (place + i) * buf.width;
      for (int64_t d = 0; d < dim; ++d) to[d] = widen(values[i * dim + d]);
    }
    constexpr int64_t kBlock = 16;
    for (int64_t i0 = 0; i0 < count; i0 += kBlock) {
      const int64_t i1 = std::min(count, i0 + kBlock);
      for (int64_t d = 0; d < dim; ++d) {
        for (int64_t i = i0; i < i1; ++i) {
          buf.keys[d * kTile + place + i] = widen(keys[i * dim + d]);
        }
      }
    }
    p += count;
  }
}

// What row r of a task sees of the tile at `tile`, by place in the tile.
struct Seen {
  int64_t begin, end;
};
Seen seen(const PagedAttentionShape& shape, const Task& task, int64_t r, int64_t tile) {
  const int64_t position = task.position + r / task.heads;
  const int64_t first = shape.window > 0 ? std::max<int64_t>(0, position + 1 - shape.window) : 0;
  return {std::clamp<int64_t>(first - tile, 0, kTile),
          std::clamp<int64_t>(position + 1 - tile, 0, kTile)};
}

// Scores become weights; what was summed before is scaled to the new maximum.
template <typename A>
void weigh_row(const Buffers<A>& buf, int64_t r, const Seen& keys) {
  A* const scores = buf.scores + r * kTile + keys.begin;
  const int64_t count = keys.end - keys.begin;
  const A top = std::max(buf.tops[r], lane_max<A>(count, [&](int64_t i) { return scores[i]; }));
  const A sum =
      lane_sum<A>(count, [&](int64_t i) { return scores[i] = fast_exp(scores[i] - top); });
  const A before = fast_exp(buf.tops[r] - top);
  buf.sums[r] = buf.sums[r] * before + sum;
  buf.tops[r] = top;
  if (before == A{1}) return;
  A* const out = buf.out + r * buf.width;
  for (int64_t d = 0; d < buf.width; ++d) out[d] *= before;
}

template <typename A>
void attend_tile(const PagedAttentionShape& shape, const Task& task, int64_t tile,
                 const Buffers<A>& buf) {
  constexpr int kAtOnce = 4;
  const auto [score, add_values] = loops<A>();
  const int64_t dim = shape.page.head_dim, width = buf.width, rows = task.rows();
  int64_t r = 0;
  for (; r + kAtOnce <= rows; r += kAtOnce) {
    score(kAtOnce, buf.queries + r * width, width, buf.keys, dim, buf.scores + r * kTile);
  }
  for (; r < rows; ++r) {
    score(1, buf.queries + r * width, width, buf.keys, dim, buf.scores + r * kTile);
  }
  for (r = 0; r < rows; ++r) {
    const Seen keys = seen(shape, task, r, tile);
    if (keys.begin < keys.end) weigh_row(buf, r, keys);
  }
  for (r = 0; r < rows;) {
    const Seen keys = seen(shape, task, r, tile);
    const A* const weights = buf.scores + r * kTile;
    const Seen last = seen(shape, task, std::min(r + kAtOnce, rows) - 1, tile);
    const bool alike = last.begin == keys.begin && last.end == keys.end;
    if (r + kAtOnce <= rows && alike) {
      add_values(kAtOnce, weights, buf.values, width, keys.begin, keys.end, buf.out + r * width);
      r += kAtOnce;
    } else {
      add_values(1, weights, buf.values, width, keys.begin, keys.end, buf.out + r * width);
      ++r;
    }
  }
}

template <typename T>
void attend(const Tensors<T>& x, const PagedAttentionShape& shape, const Task& task,
            const Buffers<Acc<T>>& buf) {
  using A = Acc<T>;
  const int64_t dim = shape.page.head_dim, ld = shape.heads * dim, width = buf.width;
  const A factor = A{1} / std::sqrt(static_cast<A>(dim));
  const auto at = [&](int64_t r) {
    return (task.first + r / task.heads) * ld + (task.first_head + r % task.heads) * dim;
  };
  for (int64_t r = 0; r < task.rows(); ++r) {
    const T* const q = x.q + at(r);
    for (int64_t d = 0; d < dim; ++d) buf.queries[r * width + d] = factor * widen(q[d]);
  }
  std::fill_n(buf.out, task.rows() * width, A{0});
  std::fill_n(buf.sums, task.rows(), A{0});
  std::fill_n(buf.tops, task.rows(), -std::numeric_limits<A>::infinity());
  const int64_t end = task.position + task.count;  // of all keys that any of them sees
  const int64_t first =
      shape.window > 0 ? std::max<int64_t>(0, task.position + 1 - shape.window) : 0;
  for (int64_t tile = first / kTile * kTile; tile < end; tile += kTile) {
    load_tile(x, shape, task, std::max(first, tile), std::min(end, tile + kTile), buf);
    attend_tile(shape, task, tile, buf);
  }
  for (int64_t r = 0; r < task.rows(); ++r) {
    const A inverse = A{1} / buf.sums[r];
    T* const o = x.o + at(r);
    for (int64_t d = 0; d < dim; ++d) o[d] = narrow<T>(buf.out[r * width + d] * inverse);
  }
}

// Calls f(Task) for every task, in a fixed order.
template <typename T, typename F>
void for_each_task(const Tensors<T>& x, const PagedAttentionShape& shape, int64_t sequences,
                   const F& f) {
  for (int64_t n = 0; n < sequences; ++n) {
    const int64_t begin = x.first_row[n], end = x.first_row[n + 1];
    const int64_t cached = x.kv_len[n] - (end - begin);
    for (int64_t head = 0; head < shape.page.kv_heads; ++head) {
      const int64_t global = (head + shape.first_kv_head) * shape.heads_per_kv - shape.first_head;
      const int64_t first = std::clamp<int64_t>(global, 0, shape.heads);
      const int64_t last = std::clamp<int64_t>(global + shape.heads_per_kv, 0, shape.heads);
      for (int64_t h = first; h < last; h += kRows) {
        const int64_t heads = std::min(kRows, last - h);
        const int64_t most = std::max<int64_t>(1, kRows / heads);
        for (int64_t t = begin; t < end; t += most) {
          f(Task{n, head, t, std::min(most, end - t), cached + t - begin, h, heads});
        }
      }
    }
  }
}

// What is read out of bounds otherwise.
template <typename T>
void check_sequences(const char* op, const Tensors<T>& x, const PagedAttentionShape& shape,
                     int64_t sequences, int64_t tokens, int64_t num_pages) {
  TESSERA_CHECK(x.first_row[0] == 0 && x.first_row[sequences] <= tokens, "{}: rows {} to {} of {}",
                op, x.first_row[0], x.first_row[sequences], tokens);
  for (int64_t n = 0; n < sequences; ++n) {
    const int64_t count = x.first_row[n + 1] - x.first_row[n];
    const int64_t used = ceil_div(int64_t{x.kv_len[n]}, shape.page.page_size);
    TESSERA_CHECK(count >= 0 && x.kv_len[n] >= count && used <= x.pages_per_sequence,
                  "{}: {} tokens of sequence {}, {} in its {} pages", op, count, n, x.kv_len[n],
                  x.pages_per_sequence);
    for (int64_t p = 0; p < used; ++p) {
      const int32_t page = x.pages[n * x.pages_per_sequence + p];
      TESSERA_CHECK(page >= 0 && page < num_pages, "{}: page {} of {}", op, page, num_pages);
    }
  }
}

// Those of scores and of values, for rows of `columns`; a window makes them fewer.
template <typename T>
int64_t multiply_adds(const Tensors<T>& x, int64_t sequences, int64_t columns) {
  int64_t pairs = 0;
  for (int64_t n = 0; n < sequences; ++n) {
    pairs += int64_t{x.first_row[n + 1] - x.first_row[n]} * x.kv_len[n];
  }
  return 2 * pairs * columns;
}

}  // namespace

void paged_attention(Context& ctx, const Tensor& q, const Tensor& cache, const Tensor& first_row,
                     const Tensor& kv_len, const Tensor& pages, Tensor& o,
                     const PagedAttentionShape& shape) {
  constexpr const char* kOp = "paged_attention";
  const int64_t sequences = pages.dim(0), tokens = q.dim(0), dim = shape.page.head_dim;
  const int members = ctx.workers.size();
  dispatch(kOp, q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const Tensors<T> x{q.as<T>(),
                       cache.as<T>(),
                       first_row.as<int32_t>(),
                       kv_len.as<int32_t>(),
                       pages.as<int32_t>(),
                       pages.dim(1),
                       o.as<T>()};
    check_sequences(kOp, x, shape, sequences, tokens, cache.dim(0));
    const int64_t used = x.first_row[sequences];
    std::fill(x.o + used * q.dim(1), x.o + tokens * q.dim(1), T{});
    const int64_t per_member = workspace::paged_attention(q.dtype, dim, 1);
    const Scratch whole(kOp, ctx.workspace, per_member * members);
    share(ctx, multiply_adds(x, sequences, q.dim(1)), [&](int member, int sharing) {
      Scratch scratch(kOp, member_part(ctx.workspace, per_member, member), per_member);
      const Buffers<A> buf(scratch, dim);
      // Columns beyond the head, and keys that are not there, are read but count for nothing.
      std::fill_n(buf.keys, buf.width * kTile, A{0});
      std::fill_n(buf.values, buf.width * kTile, A{0});
      int64_t number = 0;
      for_each_task(x, shape, sequences, [&](const Task& task) {
        if (number++ % sharing == member) attend(x, shape, task, buf);
      });
    });
  });
}

}  // namespace tessera::kernels::cpu
