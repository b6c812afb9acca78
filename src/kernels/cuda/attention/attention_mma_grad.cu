// Attention backward on tensor cores, in two passes that both recompute the probabilities: dq by
// tiles of queries, which also leaves d_o . o for the second; dk and dv by tiles of keys, summed
// over the query heads and tiles that see them in a fixed order. The second pass computes scores
// with keys as rows, so that they are at once the left side of its sums.
#include "base/cuda_workspace.h"
#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/attention_own.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cuda {
namespace {

using namespace mma;  // the vocabulary of these tiles

template <typename T>
using Tensors = GradTensors<T, Output<T>>;

// ---- dq ----
constexpr int kQueries = kWarps * kWarpRows;
// Keys of a step: as many as leave room for the sums in registers.
template <int kDim>
constexpr int kKeys = kDim == 256 ? 32 : 64;
template <int kDim>
constexpr int kQueriesBytes = 2 * (2 * kQueries + 4 * kKeys<kDim>)*kStride<kDim>;

// d_o . o of the warp's rows: two lanes each, so that all loads of a lane are under way at once.
template <typename T>
__device__ inline void dots_of_rows(const Tensors<T>& x, const AttentionShape& shape, int64_t head,
                                    bool packed, const TileQueries<kQueries>& queries,
                                    float* dots) {
  const int r = warp_index() * kWarpRows + lane_index() / 2, side = lane_index() % 2;
  const int64_t row = queries.row[r], at = row * shape.heads + head;
  const int dim = static_cast<int>(shape.head_dim);
  const T* d_o = x.d_o + at * dim;
  const T* o = x.o + at * dim;
  float sum = 0;
  if (row >= 0 && packed) {
#pragma unroll 4
    for (int d = side * 8; d < dim; d += 16) {
      const auto a = *reinterpret_cast<const Pack<T, 8>*>(d_o + d);
      const auto b = *reinterpret_cast<const Pack<T, 8>*>(o + d);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += widen(a.at[i]) * widen(b.at[i]);
    }
  } else if (row >= 0) {
    for (int d = side; d < dim; d += 2) sum += widen(d_o[d]) * widen(o[d]);
  }
  sum += __shfl_xor_sync(0xffffffffU, sum, 1);
  if (side != 0) return;
  dots[r] = sum;
  if (row >= 0) x.dots[at] = sum;
}

template <typename T, int kDim, bool kDropout>
__global__ void __launch_bounds__(kThreads, 1)
    d_queries_kernel(Tensors<T> x, AttentionShape shape, int64_t num_sequences, int64_t tiles,
                     bool packed, const StepParams* params) {
  constexpr int kStep = kKeys<kDim>, kTiles = kStep / 8;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ TileQueries<kQueries> queries;
  __shared__ TileTokens<kStep> keys[3];
  __shared__ float dots[kQueries];
  T* q_tile = reinterpret_cast<T*>(memory);
  T* d_o_tile = q_tile + kQueries * kStride<kDim>;
  const KeyWalk<T, kDim, kQueries, kStep> walk(shape, num_sequences, tiles, packed, x.kv, keys,
                                               d_o_tile + kQueries * kStride<kDim>);
  const BlockPlace& place = walk.place;
  const int dim = walk.dim;
  walk.begin(queries, [&] {
    walk.load_queries(x.q, queries, q_tile);
    walk.load_queries(x.d_o, queries, d_o_tile);
  });
  dots_of_rows(x, shape, place.head, packed, queries, dots);
  __syncwarp();  // a warp reads its own rows only

  const WarpQueries mine(queries);
  const int column = lane_index() % 4 * 2;
  const float dot[2] = {dots[mine.row[0]], dots[mine.row[1]]};
  float lse[2] = {0, 0};  // in powers of two
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t token = queries.row[mine.row[half]];
    if (token >= 0) lse[half] = x.lse[token * shape.heads + place.head] * kLog2E;
  }
  const float scale = 1 / sqrtf(static_cast<float>(dim)), scale_log2 = scale * kLog2E;
  const DropoutDraw<float> dropout(shape, params, place.sequence, place.head);

  float out[kDim / 8][4] = {};
  walk.for_each_step(mine, [&](const TileTokens<kStep>& here, const T* k_tile, const T* v_tile) {
    float scores[kTiles][4], d_scores[kTiles][4];
    dot_rows<kDim>(q_tile + mine.first_row * kStride<kDim>, k_tile, scores);
    dot_rows<kDim>(d_o_tile + mine.first_row * kStride<kDim>, v_tile, d_scores);
    const bool all_seen = mine.all_see(here.position[0], here.position[kStep - 1]);
    for_each_result<kTiles>([&](int n, int i, int at) {
      const int32_t key = here.position[at];
      const bool seen = all_seen || sees(mine.query[i / 2], mine.start[i / 2], key);
      const float p = seen ? exp2_of(scores[n][i] * scale_log2 - lse[i / 2]) : 0.0F;
      float d_weight = d_scores[n][i];
      if constexpr (kDropout) d_weight *= dropout.factor(mine.query[i / 2], key);
      d_scores[n][i] = p * (d_weight - dot[i / 2]);
    });
    weigh_rows<kDim, kDim>(d_scores, k_tile, out);
  });

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t token = queries.row[mine.row[half]];
    const int64_t to = token * walk.q_rows.width + place.head * dim;
    if (token < 0) continue;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const int d = n * 8 + column;
      float value[2] = {scale * out[n][2 * half], scale * out[n][2 * half + 1]};
      if (x.dq_before != nullptr) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (d + i < dim) value[i] += x.dq_before[to + d + i];
        }
      }
      x.dq.set_two(to, d, walk.q_rows, value[0], value[1]);
    }
  }
}

// ---- dk, dv ----
// Warps side by side: heads too wide for the registers of one share the columns of the sums.
template <int kDim>
constexpr int kAbreast = kDim == 256 ? 2 : 1;
template <int kDim>
constexpr int kKeyRows = kWarps / kAbreast<kDim>* kWarpRows;
// Queries of a step.
template <int kDim>
constexpr int kQueryStep = kDim == 64 ? 64 : 32;
template <int kDim>
constexpr int kKeysBytes = 2 * (2 * kKeyRows<kDim> + 4 * kQueryStep<kDim>)*kStride<kDim>;

template <typename T, int kDim, bool kDropout>
__global__ void __launch_bounds__(kThreads, 1)
    d_keys_kernel(Tensors<T> x, AttentionShape shape, int64_t num_sequences, int64_t tiles,
                  bool packed, const StepParams* params) {
  constexpr int kStep = kQueryStep<kDim>, kTiles = kStep / 8, kRows = kKeyRows<kDim>;
  constexpr int kColumns = kDim / kAbreast<kDim>;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ TileTokens<kRows> keys;
  // Tokens of the tile in use, of the next, whose rows are being copied, and of the one before.
  __shared__ TileQueries<kStep> queries[3];
  __shared__ float lse[2][kStep], dots[2][kStep];
  T* k_tile = reinterpret_cast<T*>(memory);
  T* v_tile = k_tile + kRows * kStride<kDim>;
  T* q_tiles = v_tile + kRows * kStride<kDim>;
  T* d_o_tiles = q_tiles + 2 * kStep * kStride<kDim>;

  const BlockPlace place(tiles, shape.kv_heads);
  const int64_t first = place.tile * kRows;
  const int64_t last = std::min(first + kRows, shape.kv_rows().length()) - 1;
  const int dim = static_cast<int>(shape.head_dim);
  const RowsOf q_rows{shape.heads * dim, dim, packed};
  const RowsOf kv_rows{2 * shape.kv_heads * dim, dim, packed};
  const T* from_keys = x.kv + place.head * dim;
  const TokenRange range = queries_seeing(shape, {place.sequence, num_sequences}, first, last);
  const TokenRange heads = query_heads_of(shape, place.head);
  const int64_t first_query = range.begin / kStep * kStep;
  const int steps_per_head =
      range.end > first_query ? static_cast<int>((range.end - first_query + kStep - 1) / kStep) : 0;
  const int steps = steps_per_head * static_cast<int>(heads.end - heads.begin);
  const auto locate_queries = [&](int step) {
    cuda::locate_queries(shape, place.sequence, num_sequences,
                         first_query + step % steps_per_head * kStep, queries[step % 3]);
  };
  const auto load_queries = [&](int step) {
    const int64_t head = heads.begin + step / steps_per_head;
    const TileTokens<kStep>& tokens = queries[step % 3];
    const int to = step % 2 * kStep * kStride<kDim>;
    load_tile<kDim>(x.q + head * dim, q_rows, tokens, q_tiles + to);
    load_tile<kDim>(x.d_o + head * dim, q_rows, tokens, d_o_tiles + to);
    const int r = static_cast<int>(threadIdx.x);
    if (r >= kStep) return;
    const bool exists = tokens.row[r] >= 0;
    const int64_t at = exists ? tokens.row[r] * shape.heads + head : 0;
    copy_4_bytes(&lse[step % 2][r], x.lse + at, exists);
    copy_4_bytes(&dots[step % 2][r], x.dots + at, exists);
  };

  locate(shape.kv_rows(), place.sequence, num_sequences, first, kNoKey, keys);
  if (steps > 0) locate_queries(0);
  __syncthreads();
  if (steps > 0) {
    load_tile<kDim>(from_keys, kv_rows, keys, k_tile);
    load_tile<kDim>(from_keys + shape.kv_heads * dim, kv_rows, keys, v_tile);
    load_queries(0);
  }

  const int warp_row = warp_index() / kAbreast<kDim> * kWarpRows;
  const int first_column = warp_index() % kAbreast<kDim> * kColumns;
  const int lane = lane_index(), column = lane % 4 * 2;
  const int row[2] = {warp_row + lane / 4, warp_row + lane / 4 + 8};
  const int32_t key[2] = {keys.position[row[0]], keys.position[row[1]]};
  const int32_t first_key = keys.position[warp_row];
  const int32_t last_key = keys.position[warp_row + kWarpRows - 1];
  const float scale = 1 / sqrtf(static_cast<float>(dim)), scale_log2 = scale * kLog2E;

  float d_keys[kColumns / 8][4] = {}, d_values[kColumns / 8][4] = {};
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) locate_queries(step + 1);
    wait_for_copies();
    __syncthreads();  // this tile is here, and the one before is read no more
    if (step + 1 < steps) load_queries(step + 1);
    const TileQueries<kStep>& here = queries[step % 3];
    const int32_t last_here = here.position[kStep - 1];
    // Queries before the keys of this warp see none.
    if (last_here != kNoQuery && last_here < first_key) continue;
    const int tile = step % 2 * kStep * kStride<kDim>;
    float weights[kTiles][4], d_scores[kTiles][4];
    dot_rows<kDim>(k_tile + warp_row * kStride<kDim>, q_tiles + tile, weights);
    dot_rows<kDim>(v_tile + warp_row * kStride<kDim>, d_o_tiles + tile, d_scores);
    const bool all_seen =
        last_here != kNoQuery && last_key <= here.position[0] && first_key >= here.start[kStep - 1];
    const DropoutDraw<float> dropout(shape, params, place.sequence,
                                     heads.begin + step / steps_per_head);
    for_each_result<kTiles>([&](int n, int i, int at) {
      const int32_t query = here.position[at];
      const bool seen = all_seen || sees(query, here.start[at], key[i / 2]);
      const float lse_here = lse[step % 2][at] * kLog2E;
      const float p = seen ? exp2_of(weights[n][i] * scale_log2 - lse_here) : 0.0F;
      float factor = 1;
      if constexpr (kDropout) factor = dropout.factor(query, key[i / 2]);
      weights[n][i] = p * factor;
      d_scores[n][i] = p * (factor * d_scores[n][i] - dots[step % 2][at]);
    });
    weigh_rows<kDim, kColumns>(weights, d_o_tiles + tile + first_column, d_values);
    weigh_rows<kDim, kColumns>(d_scores, q_tiles + tile + first_column, d_keys);
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t token = keys.row[row[half]], to = token * kv_rows.width + place.head * dim;
    if (token < 0) continue;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
      const int d = first_column + n * 8 + column;
      x.dkv.set_two(to, d, kv_rows, scale * d_keys[n][2 * half], scale * d_keys[n][2 * half + 1]);
      x.dkv.set_two(to + shape.kv_heads * dim, d, kv_rows, d_values[n][2 * half],
                    d_values[n][2 * half + 1]);
    }
  }
}

template <typename T>
void backward(Context& ctx, const Tensors<T>& x, int64_t num_sequences,
              const AttentionShape& shape) {
  constexpr const char* kOp = "attention_grad";
  const bool packed = packable<T>(shape.head_dim, x.q, x.kv, x.o, x.d_o, static_cast<T*>(x.dq.data),
                                  static_cast<T*>(x.dkv.data));
  for_tiles_of(kOp, shape, [&](auto width, auto dropped) {
    constexpr int kDim = decltype(width)::value;
    constexpr bool kDropout = decltype(dropped)::value;
    const int64_t q_tiles = ceil_div(shape.q_rows().length(), kQueries);
    const int64_t k_tiles = ceil_div(shape.kv_rows().length(), kKeyRows<kDim>);
    launch(kOp, ctx, d_queries_kernel<T, kDim, kDropout>, {q_tiles, shape.heads, num_sequences},
           kThreads, kQueriesBytes<kDim>, x, shape, packed);
    launch(kOp, ctx, d_keys_kernel<T, kDim, kDropout>, {k_tiles, shape.kv_heads, num_sequences},
           kThreads, kKeysBytes<kDim>, x, shape, packed);
  });
}

}  // namespace

void mma_attention_grad(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                        const Tensor& lse, const Tensor& d_o, const Tensor& dq_before, Tensor& dq,
                        Tensor& dkv, const AttentionShape& shape) {
  Scratch scratch("attention_grad", ctx.workspace,
                  workspace::cuda::attention_dots(q.dtype, q.dim(0), shape.heads));
  for_type(q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Tensors<T> x{q.as<T>(),
                       kv.as<T>(),
                       o.as<T>(),
                       lse.as<float>(),
                       d_o.as<T>(),
                       dq_before.as<float>(),
                       {dq.data, dq.dtype == DType::kF32},
                       {dkv.data, dkv.dtype == DType::kF32},
                       scratch.take<float>(q.dim(0) * shape.heads)};
    backward(ctx, x, q.dim(0) / shape.q_rows().length(), shape);
  });
}

}  // namespace tessera::kernels::cuda
