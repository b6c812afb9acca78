// What the forward and backward passes of attention share: which heads go together, and packing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/check.h"
#include "kernels/kernels.h"

namespace tessera::kernels::cpu {

// Throws InternalError unless the tensors fit the shape and every query head has its kv head.
void check_attention(const char* op, const Tensor& q, const Tensor& kv, const Tensor& lse,
                     const AttentionShape& shape);

struct HeadRange {
  int64_t begin, end;
};

// The local query heads that use local kv head `kv_head`; may be empty.
inline HeadRange query_heads(const AttentionShape& shape, int64_t kv_head) {
  const int64_t first = (kv_head + shape.first_kv_head) * shape.heads_per_kv - shape.first_head;
  return {std::clamp<int64_t>(first, 0, shape.heads),
          std::clamp<int64_t>(first + shape.heads_per_kv, 0, shape.heads)};
}

// A block of work: queries [first_query, first_query + queries) of heads [first_head, first_head +
// heads), stacked by head. Stacking the heads that share keys keeps products large while the
// block's queries, and with them the masked corner, stay few.
struct QueryBlock {
  int64_t first_head, heads, first_query, queries;
  [[nodiscard]] int64_t rows() const { return heads * queries; }
  [[nodiscard]] int64_t keys() const { return first_query + queries; }  // that any row sees
  // Index of (token, head) of row (head, 0) in a [T, heads] tensor; queries are shape.heads apart.
  [[nodiscard]] int64_t at(const AttentionShape& shape, int64_t sequence, int64_t head) const {
    return (sequence * shape.seq_len + first_query) * shape.heads + first_head + head;
  }
};

// Calls f(QueryBlock) for all queries of `heads`, in a fixed order, rows() <= kQueryRows.
template <typename F>
void for_each_block(const AttentionShape& shape, HeadRange heads, const F& f) {
  constexpr int64_t kStackedHeads = 4;
  for (int64_t head = heads.begin; head < heads.end; head += kStackedHeads) {
    const int64_t stacked = std::min(kStackedHeads, heads.end - head);
    const int64_t queries = workspace::kQueryRows / stacked;
    for (int64_t query = 0; query < shape.seq_len; query += queries) {
      f(QueryBlock{head, stacked, query, std::min(queries, shape.seq_len - query)});
    }
  }
}

// to[rows, cols] = factor * from[rows, cols] (row distance ld).
template <typename T>
void pack_rows(const T* from, int64_t ld, int64_t rows, int64_t cols, Acc<T> factor, Acc<T>* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) to[r * cols + c] = factor * widen(from[r * ld + c]);
  }
}

// to[cols, rows] = from[rows, cols]^T, by tiles so that both sides stay in cache.
template <typename T>
void pack_transposed(const T* from, int64_t ld, int64_t rows, int64_t cols, Acc<T>* to) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = r0; r < r1; ++r) to[c * rows + r] = widen(from[r * ld + c]);
    }
  }
}

// to[rows, cols] (row distance ld) = from[rows, cols], in the storage type.
template <typename T>
void unpack_rows(const Acc<T>* from, int64_t rows, int64_t cols, T* to, int64_t ld) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) to[r * ld + c] = narrow<T>(from[r * cols + c]);
  }
}

}  // namespace tessera::kernels::cpu
