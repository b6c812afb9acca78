#include "kernels/cpu/attention/attention_tiles.h"

#include <cmath>
#include <limits>

#include "base/rounding.h"
#include "base/workspace.h"
#include "kernels/cpu/attention/attention_common.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/independent.h"
#include "kernels/cpu/levels/tiles.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cpu {
namespace {

using levels::kTileDepth;
using levels::kTileLines;
using levels::packed_size;
using levels::PackedColumns;
using levels::TileProducts;

// One member's scratch. K is the number of keys that a sequence has here. `packed` is in tiles, for
// products with it on the right: [k, columns].
struct TiledBuffers {
  BFloat16* keys_across;  // packed [D, K]
  BFloat16* values;       // packed [K, D]
  BFloat16* queries;      // [R, D]
  float* scores;          // [R, K]
  float* out;             // [R, D]
  float* sums;            // [R]

  TiledBuffers(Scratch& scratch, const AttentionShape& shape) {
    const int64_t rows = workspace::kQueryRows, length = shape.kv_rows().length();
    const int64_t dim = shape.head_dim;
    keys_across = scratch.take<BFloat16>(packed_size(length, dim));
    values = scratch.take<BFloat16>(packed_size(dim, length));
    queries = scratch.take<BFloat16>(rows * dim);
    scores = scratch.take<float>(rows * length);
    out = scratch.take<float>(rows * dim);
    sums = scratch.take<float>(rows);
  }
};
struct TiledGradBuffers {
  BFloat16* keys;           // packed [K, D]
  BFloat16* keys_across;    // packed [D, K]
  BFloat16* values_across;  // packed [D, K]
  float* d_keys;            // [K, D]
  float* d_values;          // [K, D]
  BFloat16* queries;        // [R, D]
  BFloat16* d_out;          // [R, D]
  BFloat16* queries_down;   // packed [R, D]
  BFloat16* d_out_down;     // packed [R, D]
  float* d_queries;         // [R, D]
  float* scores;            // [R, K]: probabilities
  float* d_scores;          // [R, K]
  float* dots;              // [R]: do . o

  TiledGradBuffers(Scratch& scratch, const AttentionShape& shape) {
    const int64_t rows = workspace::kQueryRows, length = shape.kv_rows().length();
    const int64_t dim = shape.head_dim;
    keys = scratch.take<BFloat16>(packed_size(dim, length));
    for (BFloat16** side : {&keys_across, &values_across}) {
      *side = scratch.take<BFloat16>(packed_size(length, dim));
    }
    for (float** whole : {&d_keys, &d_values}) *whole = scratch.take<float>(length * dim);
    for (BFloat16** block : {&queries, &d_out}) *block = scratch.take<BFloat16>(rows * dim);
    for (BFloat16** block : {&queries_down, &d_out_down}) {
      *block = scratch.take<BFloat16>(packed_size(dim, rows));
    }
    d_queries = scratch.take<float>(rows * dim);
    for (float** block : {&scores, &d_scores}) *block = scratch.take<float>(rows * length);
    dots = scratch.take<float>(rows);
  }
};

// What buffers of these sizes take, which must be within what is planned for all machines.
class TakenBytes {
 public:
  template <typename T>
  TakenBytes& add(int64_t elements, int64_t count = 1) {
    bytes_ += count * round_up(elements * static_cast<int64_t>(sizeof(T)), workspace::kAlignBytes);
    return *this;
  }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};
int64_t forward_bytes(int64_t keys, int64_t dim) {
  const int64_t rows = workspace::kQueryRows;
  return TakenBytes()
      .add<BFloat16>(packed_size(keys, dim))
      .add<BFloat16>(packed_size(dim, keys))
      .add<BFloat16>(rows * dim)
      .add<float>(rows * keys)
      .add<float>(rows * dim)
      .add<float>(rows)
      .bytes();
}
int64_t backward_bytes(int64_t keys, int64_t dim) {
  const int64_t rows = workspace::kQueryRows;
  return TakenBytes()
      .add<BFloat16>(packed_size(dim, keys))
      .add<BFloat16>(packed_size(keys, dim), 2)
      .add<float>(keys * dim, 2)
      .add<BFloat16>(rows * dim, 2)
      .add<BFloat16>(packed_size(dim, rows), 2)
      .add<float>(rows * dim)
      .add<float>(rows * keys, 2)
      .add<float>(rows)
      .bytes();
}

// Runs of adjacent keys are packed each by itself, so all but the last fill whole tiles.
bool runs_fill_tiles(const AttentionShape& shape) {
  const SequenceRows keys = shape.kv_rows();
  return keys.num_chunks() == 1 || keys.chunk_len() % kTileDepth == 0;
}

// Rows of a head of `from`, `ld` apart, into [length, dim] packed for products over them.
void pack_down(const TileProducts& tiles, const BFloat16* from, int64_t ld, int64_t first,
               int64_t count, int64_t length, int64_t dim, BFloat16* to) {
  const PackedColumns whole{to, length};
  if (count == length) return tiles.pack({from, ld, 1}, dim, count, to);
  for (int64_t col = 0; col < dim; col += kTileLines) {
    tiles.pack({from + col, ld, 1}, std::min(kTileLines, dim - col), count,
               to + (whole.at(first, col) - to));
  }
}

// The same for products with each of them: its rows are columns there.
void pack_across(const TileProducts& tiles, const BFloat16* from, int64_t ld, int64_t first,
                 int64_t count, int64_t dim, BFloat16* to) {
  tiles.pack({from, 1, ld}, count, dim, to + packed_size(first, dim));
}

// Rows of the heads of a block, stacked by head.
void gather_rows(const AttentionShape& shape, const QueryBlock& block, const BFloat16* from,
                 BFloat16* to) {
  const int64_t dim = shape.head_dim, ld = shape.heads * dim;
  for (int64_t h = 0; h < block.heads; ++h) {
    const BFloat16* row = from + block.at(shape, h) * dim;
    for (int64_t i = 0; i < block.queries; ++i, row += ld, to += dim) std::copy_n(row, dim, to);
  }
}

// The keys of a block from the start of a tile on: those before the first that is seen are masked.
struct TiledKeys {
  int64_t begin, count, masked;
  explicit TiledKeys(const KeyRange& keys)
      : begin(keys.begin / kTileDepth * kTileDepth),
        count(keys.end - begin),
        masked(keys.begin - begin) {}
  [[nodiscard]] KeyRange of(const KeyRange& visible) const {
    return {visible.begin + masked, visible.end + masked};
  }
};

// c = a b or c += a b: a of bf16 [m, k] as it lies, b packed.
void multiply_rows(const TileProducts& tiles, const BFloat16* a, int64_t m, int64_t k,
                   const PackedColumns& b, int64_t n, float* c) {
  tiles.by_packed({{a, k, 1}, {}, m, n, k, 1.0F, false, c, n}, b);
}

void clear_masked(float* scores, const KeyRange& visible, int64_t count) {
  std::fill(scores, scores + visible.begin, 0.0F);
  std::fill(scores + visible.end, scores + count, 0.0F);
}

// Sums of products with visible keys become exp(factor * sum - max), the others zero. Returns their
// sum.
float softmax_of_sums(float* scores, float factor, const KeyRange& visible, int64_t count,
                      float* lse) {
  float* const seen = scores + visible.begin;
  const float max = factor * lane_max<float>(visible.size(), [&](int64_t i) { return seen[i]; });
  const float sum = lane_sum<float>(
      visible.size(), [&](int64_t i) { return seen[i] = fast_exp(factor * seen[i] - max); });
  clear_masked(scores, visible, count);
  *lse = max + std::log(sum);  // -inf when nothing is visible
  return sum;
}

// Row r of a block: what its weighted values sum up to, joined with what is known of other keys.
template <typename O>
void finish_tiled_row(const AttentionShape& shape, const TiledBuffers& buf,
                      const TiledAttention<O>& x, int64_t at, int64_t r, float lse_here) {
  const int64_t dim = shape.head_dim;
  const float* const out = buf.out + r * dim;
  O* const o = x.o + at * dim;
  const float inverse = buf.sums[r] > 0 ? 1 / buf.sums[r] : 0.0F;
  if (x.o_before == nullptr) {
    for (int64_t d = 0; d < dim; ++d) o[d] = narrow<O>(out[d] * inverse);
    x.lse[at] = lse_here;
    return;
  }
  const float lse_before = x.lse_before[at], top = std::max(lse_before, lse_here);
  const bool any = top > -std::numeric_limits<float>::infinity();
  const float lse =
      any ? top + std::log(std::exp(lse_before - top) + std::exp(lse_here - top)) : top;
  const float before = any ? std::exp(lse_before - lse) : 0.0F;
  const float here = any ? std::exp(lse_here - lse) * inverse : 0.0F;
  const float* const o_before = x.o_before + at * dim;
  for (int64_t d = 0; d < dim; ++d) o[d] = narrow<O>(before * o_before[d] + here * out[d]);
  x.lse[at] = lse;
}

template <typename O>
void attend_tiled_block(const TileProducts& tiles, const AttentionShape& shape,
                        const TiledBuffers& buf, const TiledAttention<O>& x,
                        const QueryBlock& block) {
  const int64_t dim = shape.head_dim, length = shape.kv_rows().length(), rows = block.rows();
  const float factor = 1 / std::sqrt(static_cast<float>(dim));
  const TiledKeys keys(block.keys);
  gather_rows(shape, block, x.q, buf.queries);
  const PackedColumns keys_across{buf.keys_across, dim}, values{buf.values, length};
  multiply_rows(tiles, buf.queries, rows, dim, {keys_across.at(0, keys.begin), dim}, keys.count,
                buf.scores);
  float block_lse[workspace::kQueryRows];
  for (int64_t r = 0; r < rows; ++r) {
    const KeyRange visible = block.visible(shape, r % block.queries);
    float* const scores = buf.scores + r * keys.count;
    buf.sums[r] = softmax_of_sums(scores, factor, keys.of(visible), keys.count, block_lse + r);
    if (!shape.dropout.on()) continue;
    for_each_dropped<float>(shape, block, r, visible,
                            [&](int64_t key, int64_t count, const float* factors) {
                              float* const at = scores + keys.masked + key;
                              for (int64_t i = 0; i < count; ++i) at[i] *= factors[i];
                            });
  }
  tiles.rounded_by_packed(
      {{buf.scores, keys.count, 1}, {}, rows, dim, keys.count, 1.0F, false, buf.out, dim},
      {values.at(keys.begin, 0), length});
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = block.at(shape, r / block.queries) + r % block.queries * shape.heads;
    finish_tiled_row(shape, buf, x, at, r, block_lse[r]);
  }
}

// A block that sees no key of this call.
template <typename O>
void pass_tiled_block(const AttentionShape& shape, const TiledAttention<O>& x,
                      const QueryBlock& block) {
  const int64_t dim = shape.head_dim;
  for (int64_t r = 0; r < block.rows(); ++r) {
    const int64_t at = block.at(shape, r / block.queries) + r % block.queries * shape.heads;
    for (int64_t d = at * dim; d < (at + 1) * dim; ++d) {
      x.o[d] = x.o_before == nullptr ? O{} : narrow<O>(x.o_before[d]);
    }
    x.lse[at] = x.o_before == nullptr ? -std::numeric_limits<float>::infinity() : x.lse_before[at];
  }
}

template <typename O>
void attend_item(const TileProducts& tiles, const AttentionShape& shape, const TiledBuffers& buf,
                 const TiledAttention<O>& x, const WorkItem& item) {
  const int64_t dim = shape.head_dim, kv_width = 2 * shape.kv_heads * dim;
  const HeadRange heads = query_heads(shape, item.kv_head);
  if (heads.begin == heads.end) return;
  for_each_key_run(shape, item, [&](int64_t key, int64_t row, int64_t count) {
    const BFloat16* const keys = x.kv + row * kv_width + item.kv_head * dim;
    const BFloat16* const values = keys + shape.kv_heads * dim;
    pack_across(tiles, keys, kv_width, key, count, dim, buf.keys_across);
    pack_down(tiles, values, kv_width, key, count, shape.kv_rows().length(), dim, buf.values);
  });
  for_each_block(shape, item, [&](const QueryBlock& block) {
    if (block.keys.size() > 0) {
      attend_tiled_block(tiles, shape, buf, x, block);
    } else {
      pass_tiled_block(shape, x, block);
    }
  });
}

// Sums of products -> probabilities p, d_scores (dp) -> factor * p * (dp - dot), which both dq and
// dk are sums of.
void softmax_grad_of_sums(float* scores, float* d_scores, float factor, const KeyRange& visible,
                          float lse, float dot) {
  TESSERA_INDEPENDENT
  for (int64_t i = visible.begin; i < visible.end; ++i) {
    const float p = fast_exp(factor * scores[i] - lse);
    scores[i] = p;
    d_scores[i] = factor * (p * (d_scores[i] - dot));
  }
}

template <typename O>
void store_tiled_d_queries(const AttentionShape& shape, const TiledGradBuffers& buf,
                           const TiledAttentionGrad<O>& x, const QueryBlock& block) {
  const int64_t dim = shape.head_dim, ld = shape.heads * dim;
  for (int64_t h = 0; h < block.heads; ++h) {
    const float* const from = buf.d_queries + h * block.queries * dim;
    const int64_t to = block.at(shape, h) * dim;
    if (x.dq_before == nullptr) {
      unpack_rows(from, block.queries, dim, x.dq + to, ld);
    } else {
      unpack_rows_onto(from, block.queries, dim, x.dq_before + to, x.dq + to, ld);
    }
  }
}

// Scores and their gradients of one row.
template <typename O>
void grad_of_row(const AttentionShape& shape, const TiledGradBuffers& buf,
                 const TiledAttentionGrad<O>& x, const QueryBlock& block, const TiledKeys& keys,
                 int64_t r) {
  const float factor = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  const int64_t query = r % block.queries;
  const float lse = x.lse[block.at(shape, r / block.queries) + query * shape.heads];
  const float dot = buf.dots[r];
  const KeyRange visible = block.visible(shape, query), seen = keys.of(visible);
  float* const scores = buf.scores + r * keys.count;
  float* const d_scores = buf.d_scores + r * keys.count;
  if (shape.dropout.on()) {
    for_each_dropped<float>(
        shape, block, r, visible, [&](int64_t key, int64_t count, const float* factors) {
          const int64_t at = keys.masked + key;
          for (int64_t i = 0; i < count; ++i) {
            const float p = fast_exp(factor * scores[at + i] - lse);
            scores[at + i] = p * factors[i];
            d_scores[at + i] = factor * (p * (factors[i] * d_scores[at + i] - dot));
          }
        });
  } else {
    softmax_grad_of_sums(scores, d_scores, factor, seen, lse, dot);
  }
  clear_masked(scores, seen, keys.count);
  clear_masked(d_scores, seen, keys.count);
}

template <typename O>
void tiled_block_grad(const TileProducts& tiles, const AttentionShape& shape,
                      const TiledGradBuffers& buf, const TiledAttentionGrad<O>& x,
                      const QueryBlock& block) {
  const int64_t dim = shape.head_dim, length = shape.kv_rows().length(), rows = block.rows();
  const TiledKeys keys(block.keys);
  gather_rows(shape, block, x.q, buf.queries);
  gather_rows(shape, block, x.d_o, buf.d_out);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = block.at(shape, r / block.queries) + r % block.queries * shape.heads;
    const BFloat16* const out = x.o + at * dim;
    const BFloat16* const d_out = buf.d_out + r * dim;
    buf.dots[r] = lane_sum<float>(dim, [&](int64_t d) { return widen(d_out[d]) * widen(out[d]); });
  }
  tiles.pack({buf.queries, dim, 1}, dim, rows, buf.queries_down);
  tiles.pack({buf.d_out, dim, 1}, dim, rows, buf.d_out_down);
  const PackedColumns keys_across{buf.keys_across, dim}, values_across{buf.values_across, dim};
  multiply_rows(tiles, buf.queries, rows, dim, {keys_across.at(0, keys.begin), dim}, keys.count,
                buf.scores);
  multiply_rows(tiles, buf.d_out, rows, dim, {values_across.at(0, keys.begin), dim}, keys.count,
                buf.d_scores);
  for (int64_t r = 0; r < rows; ++r) grad_of_row(shape, buf, x, block, keys, r);
  const auto add_over_rows = [&](const float* of_scores, const BFloat16* down, float* to) {
    tiles.rounded_by_packed({{of_scores, 1, keys.count},
                             {},
                             keys.count,
                             dim,
                             rows,
                             1.0F,
                             true,
                             to + keys.begin * dim,
                             dim},
                            {down, rows});
  };
  add_over_rows(buf.scores, buf.d_out_down, buf.d_values);
  add_over_rows(buf.d_scores, buf.queries_down, buf.d_keys);
  const PackedColumns keys_down{buf.keys, length};
  tiles.rounded_by_packed(
      {{buf.d_scores, keys.count, 1}, {}, rows, dim, keys.count, 1.0F, false, buf.d_queries, dim},
      {keys_down.at(keys.begin, 0), length});
  store_tiled_d_queries(shape, buf, x, block);
}

template <typename O>
void attend_grad_item(const TileProducts& tiles, const AttentionShape& shape,
                      const TiledGradBuffers& buf, const TiledAttentionGrad<O>& x,
                      const WorkItem& item) {
  const int64_t dim = shape.head_dim, length = shape.kv_rows().length();
  const int64_t kv_width = 2 * shape.kv_heads * dim, values = shape.kv_heads * dim;
  for_each_key_run(shape, item, [&](int64_t key, int64_t row, int64_t count) {
    const BFloat16* const keys = x.kv + row * kv_width + item.kv_head * dim;
    pack_down(tiles, keys, kv_width, key, count, length, dim, buf.keys);
    pack_across(tiles, keys, kv_width, key, count, dim, buf.keys_across);
    pack_across(tiles, keys + values, kv_width, key, count, dim, buf.values_across);
  });
  std::fill_n(buf.d_keys, length * dim, 0.0F);
  std::fill_n(buf.d_values, length * dim, 0.0F);
  for_each_block(shape, item, [&](const QueryBlock& block) {
    if (block.keys.size() > 0) {
      tiled_block_grad(tiles, shape, buf, x, block);
    } else if (x.dq_before != x.dq) {
      std::fill_n(buf.d_queries, block.rows() * dim, 0.0F);
      store_tiled_d_queries(shape, buf, x, block);
    }
  });
  for_each_key_run(shape, item, [&](int64_t key, int64_t row, int64_t count) {
    O* const d_keys = x.dkv + row * kv_width + item.kv_head * dim;
    unpack_rows(buf.d_keys + key * dim, count, dim, d_keys, kv_width);
    unpack_rows(buf.d_values + key * dim, count, dim, d_keys + values, kv_width);
  });
}

}  // namespace

template <typename O>
bool attend_on_tiles(const char* op, Context& ctx, const TiledAttention<O>& x,
                     int64_t num_sequences, const AttentionShape& shape) {
  const TileProducts* const tiles = tile_products();
  const int64_t keys = shape.kv_rows().length(), dim = shape.head_dim;
  const int64_t per_member = workspace::attention(DType::kBF16, keys, dim, 1);
  if (tiles == nullptr || !runs_fill_tiles(shape) || forward_bytes(keys, dim) > per_member) {
    return false;
  }
  for_each_item<TiledBuffers>(op, ctx, per_member, shape, num_sequences,
                              [&](const TiledBuffers& buf, const WorkItem& item) {
                                attend_item(*tiles, shape, buf, x, item);
                              });
  return true;
}

template <typename O>
bool attend_grad_on_tiles(const char* op, Context& ctx, const TiledAttentionGrad<O>& x,
                          int64_t num_sequences, const AttentionShape& shape) {
  const TileProducts* const tiles = tile_products();
  const int64_t keys = shape.kv_rows().length(), dim = shape.head_dim;
  const int64_t per_member = workspace::attention_grad(DType::kBF16, keys, dim, 1);
  if (tiles == nullptr || !runs_fill_tiles(shape) || backward_bytes(keys, dim) > per_member) {
    return false;
  }
  for_each_item<TiledGradBuffers>(op, ctx, per_member, shape, num_sequences,
                                  [&](const TiledGradBuffers& buf, const WorkItem& item) {
                                    attend_grad_item(*tiles, shape, buf, x, item);
                                  });
  return true;
}

template bool attend_on_tiles<BFloat16>(const char*, Context&, const TiledAttention<BFloat16>&,
                                        int64_t, const AttentionShape&);
template bool attend_on_tiles<float>(const char*, Context&, const TiledAttention<float>&, int64_t,
                                     const AttentionShape&);
template bool attend_grad_on_tiles<BFloat16>(const char*, Context&,
                                             const TiledAttentionGrad<BFloat16>&, int64_t,
                                             const AttentionShape&);
template bool attend_grad_on_tiles<float>(const char*, Context&, const TiledAttentionGrad<float>&,
                                          int64_t, const AttentionShape&);

}  // namespace tessera::kernels::cpu
