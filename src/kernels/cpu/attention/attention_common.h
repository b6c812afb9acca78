// What the forward and backward passes of attention share: which heads go together, and packing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/workspace.h"
#include "kernels/attention.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cpu {

// With the key of its dropout mask.
inline AttentionShape with_key(AttentionShape shape, const StepParams* params) {
  shape.dropout = tessera::with_key(shape.dropout, params);
  return shape;
}

struct HeadRange {
  int64_t begin, end;
};

// The local query heads that use local kv head `kv_head`; may be empty.
inline HeadRange query_heads(const AttentionShape& shape, int64_t kv_head) {
  const int64_t first = (kv_head + shape.first_kv_head) * shape.heads_per_kv - shape.first_head;
  return {std::clamp<int64_t>(first, 0, shape.heads),
          std::clamp<int64_t>(first + shape.heads_per_kv, 0, shape.heads)};
}

// Keys of a sequence, counted in order of position.
struct KeyRange {
  int64_t begin, end;
  [[nodiscard]] int64_t size() const { return end - begin; }
};

// Those that queries at positions [first, first + count), in rows from `row` on, see, some of them
// or all.
inline KeyRange visible_keys(const AttentionShape& shape, int64_t row, int64_t first,
                             int64_t count) {
  const SequenceRows keys = shape.kv_rows();
  const int64_t end = keys.count_before(first + count);
  int64_t from = shape.window > 0 ? first + 1 - shape.window : 0;
  if (shape.starts != nullptr) from = std::max<int64_t>(from, shape.starts[row]);
  return {std::min(keys.count_before(from), end), end};
}

// A block of work: `queries` tokens that are adjacent rows and positions, for heads [first_head,
// first_head + heads), stacked by head. Stacking the heads that share keys keeps products large
// while the block's queries, and with them the masked corner, stay few.
struct QueryBlock {
  int64_t first_head, heads, first_row, first_position, queries;
  KeyRange keys;  // that any row sees
  int64_t sequence;
  [[nodiscard]] int64_t rows() const { return heads * queries; }
  // Index of (token, head) of row (head, 0) in a [T, heads] tensor; queries are shape.heads apart.
  [[nodiscard]] int64_t at(const AttentionShape& shape, int64_t head) const {
    return first_row * shape.heads + first_head + head;
  }
  // What one query sees, counted from keys.begin.
  [[nodiscard]] KeyRange visible(const AttentionShape& shape, int64_t query) const {
    const KeyRange seen = visible_keys(shape, first_row + query, first_position + query, 1);
    return {seen.begin - keys.begin, seen.end - keys.begin};
  }
};

// One kv head of one sequence.
struct WorkItem {
  int64_t sequence, num_sequences, kv_head;
};

// Calls f(QueryBlock) for all queries of an item, in a fixed order, rows() <= kQueryRows.
template <typename F>
void for_each_block(const AttentionShape& shape, const WorkItem& item, const F& f) {
  constexpr int64_t kStackedHeads = 4;
  const HeadRange heads = query_heads(shape, item.kv_head);
  const SequenceRows tokens = shape.q_rows();
  for (int64_t head = heads.begin; head < heads.end; head += kStackedHeads) {
    const int64_t stacked = std::min(kStackedHeads, heads.end - head);
    const int64_t most = workspace::kQueryRows / stacked;
    for (int64_t c = 0; c < tokens.num_chunks(); ++c) {
      const int64_t row = tokens.first_row(c, item.sequence, item.num_sequences);
      for (int64_t query = 0; query < tokens.chunk_len(); query += most) {
        const int64_t queries = std::min(most, tokens.chunk_len() - query);
        const int64_t position = tokens.first_position(c) + query;
        f(QueryBlock{head, stacked, row + query, position, queries,
                     visible_keys(shape, row + query, position, queries), item.sequence});
      }
    }
  }
}

// Calls f(key, count, factors) for runs of the keys that row r of a block sees, counted from
// block.keys.begin: what dropout multiplies their probabilities by.
template <typename A, typename F>
void for_each_dropped(const AttentionShape& shape, const QueryBlock& block, int64_t r,
                      const KeyRange& visible, const F& f) {
  const SequenceRows keys = shape.kv_rows();
  const int64_t query = block.first_position + r % block.queries;
  const int64_t head = shape.first_head + block.first_head + r / block.queries;
  for (int64_t c = 0; c < keys.num_chunks(); ++c) {
    const int64_t chunk = c * keys.chunk_len();
    const int64_t begin = std::max(chunk, block.keys.begin + visible.begin);
    const int64_t end = std::min(chunk + keys.chunk_len(), block.keys.begin + visible.end);
    for_each_dropout_piece<A>(shape.dropout, {block.sequence, query, head},
                              keys.first_position(c) + begin - chunk, end - begin,
                              [&](int64_t done, int64_t count, const A* factors) {
                                f(begin - block.keys.begin + done, count, factors);
                              });
  }
}

// Calls f(buffers, item) for all items, dealt to the members in turn. Each member has a Buffers of
// its own, made from its `per_member` bytes of the workspace.
template <typename Buffers, typename F>
void for_each_item(const char* op, Context& ctx, int64_t per_member, const AttentionShape& shape,
                   int64_t num_sequences, const F& f) {
  const int size = ctx.workers.size();
  const Scratch whole(op, ctx.workspace, per_member * size);
  const int64_t items = num_sequences * shape.kv_heads;
  ctx.workers.run([&](int member) {
    Scratch scratch(op, member_part(ctx.workspace, per_member, member), per_member);
    const Buffers buffers(scratch, shape);
    for (int64_t item = member; item < items; item += size) {
      f(buffers, WorkItem{item / shape.kv_heads, num_sequences, item % shape.kv_heads});
    }
  });
}

// Calls f(first key in order of position, its row, count) for every run of adjacent rows of kv.
template <typename F>
void for_each_key_run(const AttentionShape& shape, const WorkItem& item, const F& f) {
  const SequenceRows keys = shape.kv_rows();
  for (int64_t c = 0; c < keys.num_chunks(); ++c) {
    f(c * keys.chunk_len(), keys.first_row(c, item.sequence, item.num_sequences), keys.chunk_len());
  }
}

// to[rows, cols] = factor * from[rows, cols] (row distance ld).
template <typename T>
void pack_rows(const T* from, int64_t ld, int64_t rows, int64_t cols, Acc<T> factor, Acc<T>* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) to[r * cols + c] = factor * widen(from[r * ld + c]);
  }
}

// to[cols, rows] (row distance to_ld) = from[rows, cols]^T, by tiles so that both sides stay in
// cache.
template <typename T>
void pack_transposed(const T* from, int64_t ld, int64_t rows, int64_t cols, Acc<T>* to,
                     int64_t to_ld) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = r0; r < r1; ++r) to[c * to_ld + r] = widen(from[r * ld + c]);
    }
  }
}

// to[rows, cols] (row distance ld) = from[rows, cols], in the type of the output.
template <typename Out>
void unpack_rows(const Acc<Out>* from, int64_t rows, int64_t cols, Out* to, int64_t ld) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) to[r * ld + c] = narrow<Out>(from[r * cols + c]);
  }
}

// The same, plus `before`, which is placed as `to` and may be it.
template <typename Out>
void unpack_rows_onto(const Acc<Out>* from, int64_t rows, int64_t cols, const Out* before, Out* to,
                      int64_t ld) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      to[r * ld + c] = narrow<Out>(widen(before[r * ld + c]) + from[r * cols + c]);
    }
  }
}

}  // namespace tessera::kernels::cpu
