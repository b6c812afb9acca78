// Attention forward on tensor cores: one block per 128 queries and head. It walks over the keys, 64
// at a time, with a running maximum and sum; the next ones are copied meanwhile.
#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/attention_own.h"

namespace tessera::kernels::cuda {
namespace {

using namespace mma;  // the vocabulary of these tiles

constexpr int kQueries = kWarps * kWarpRows;
constexpr int kKeys = 64;
constexpr int kTiles = kKeys / 8;

template <typename T>
using Tensors = ForwardTensors<T, Output<T>>;

template <int kDim>
constexpr int kSharedBytes = 2 * (kQueries + 4 * kKeys) * kStride<kDim>;

// Scores become weights 2^(scale (score - max)), in place. What came before is to be multiplied by
// shrink.
struct Running {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // this lane's share

  __device__ void weigh(float (&scores)[kTiles][4], float scale, float (&shrink)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = max[half];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        top = fmaxf(top, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      }
      top = row_max(top);
      // Where nothing was seen yet, everything is 2^-inf.
      const float base = top == -INFINITY ? 0.0F : top * scale;
      shrink[half] = exp2_of(max[half] * scale - base);
      max[half] = top;
      float sum_here = 0;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[n][i] = exp2_of(scores[n][i] * scale - base);
          sum_here += scores[n][i];
        }
      }
      sum[half] = sum[half] * shrink[half] + sum_here;
    }
  }
};

template <int kDim, typename T>
__device__ inline void store_row(const Tensors<T>& x, int64_t at, const RowsOf& rows, int half,
                                 float lse_here, float sum, const float (&out)[kDim / 8][4]) {
  const float inverse = sum > 0 ? 1 / sum : 0;
  Merged<float> m{0, 1, lse_here};
  if (x.o_before != nullptr) m = merge(x.lse_before[at], lse_here);
  const float here = m.here * inverse;
  const int64_t row = at * rows.dim;
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n) {
    const int d = n * 8 + lane_index() % 4 * 2;
    float value[2] = {here * out[n][2 * half], here * out[n][2 * half + 1]};
    if (x.o_before != nullptr) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (d + i < rows.dim) value[i] += m.before * x.o_before[row + d + i];
      }
    }
    x.o.set_two(row, d, rows, value[0], value[1]);
  }
}

template <typename T, int kDim, bool kDropout>
__global__ void __launch_bounds__(kThreads, kDim == 64 ? 2 : 1)
    forward_kernel(Tensors<T> x, AttentionShape shape, int64_t num_sequences, int64_t tiles,
                   bool packed, const StepParams* params) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ TileQueries<kQueries> queries;
  __shared__ TileTokens<kKeys> keys[3];
  T* q_tile = reinterpret_cast<T*>(memory);
  const KeyWalk<T, kDim, kQueries, kKeys> walk(shape, num_sequences, tiles, packed, x.kv, keys,
                                               q_tile + kQueries * kStride<kDim>);
  const BlockPlace& place = walk.place;
  walk.begin(queries, [&] { walk.load_queries(x.q, queries, q_tile); });

  const WarpQueries mine(queries);
  const float scale = kLog2E / sqrtf(static_cast<float>(walk.dim));
  const DropoutDraw<float> dropout(shape, params, place.sequence, place.head);

  Running running;
  float out[kDim / 8][4] = {};
  walk.for_each_step(mine, [&](const TileTokens<kKeys>& here, const T* k_tile, const T* v_tile) {
    float scores[kTiles][4], shrink[2];
    dot_rows<kDim>(q_tile + mine.first_row * kStride<kDim>, k_tile, scores);
    if (!mine.all_see(here.position[0], here.position[kKeys - 1])) {
      for_each_result<kTiles>([&](int n, int i, int column) {
        if (!sees(mine.query[i / 2], mine.start[i / 2], here.position[column])) {
          scores[n][i] = -INFINITY;
        }
      });
    }
    running.weigh(scores, scale, shrink);
    if constexpr (kDropout) {
      for_each_result<kTiles>([&](int n, int i, int column) {
        scores[n][i] *= dropout.factor(mine.query[i / 2], here.position[column]);
      });
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[n][i] *= shrink[i / 2];
    }
    weigh_rows<kDim, kDim>(scores, v_tile, out);
  });

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = row_sum(running.sum[half]);
    float lse = running.max[half] * scale * kLn2 + logf(sum);  // -inf when nothing was seen
    const int64_t token = queries.row[mine.row[half]], at = token * shape.heads + place.head;
    if (token >= 0) {
      store_row<kDim>(x, at, walk.q_rows, half, lse, sum, out);
      if (x.o_before != nullptr) lse = merge(x.lse_before[at], lse).lse;
    }
    __syncwarp();  // lse may be lse_before
    if (token >= 0 && lane_index() % 4 == 0) x.lse[at] = lse;
  }
}

template <typename T>
void forward(Context& ctx, const Tensors<T>& x, int64_t num_sequences,
             const AttentionShape& shape) {
  const int64_t tiles = ceil_div(shape.q_rows().length(), kQueries);
  const bool packed = packable<T>(shape.head_dim, x.q, x.kv, static_cast<T*>(x.o.data));
  for_tiles_of("attention", shape, [&](auto width, auto dropped) {
    constexpr int kDim = decltype(width)::value;
    launch("attention", ctx, forward_kernel<T, kDim, decltype(dropped)::value>,
           {tiles, shape.heads, num_sequences}, kThreads, kSharedBytes<kDim>, x, shape, packed);
  });
}

}  // namespace

void mma_attention(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o_before,
                   const Tensor& lse_before, Tensor& o, Tensor& lse, const AttentionShape& shape) {
  for_type(q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Tensors<T> x{q.as<T>(),
                       kv.as<T>(),
                       o_before.as<float>(),
                       lse_before.as<float>(),
                       {o.data, o.dtype == DType::kF32},
                       lse.as<float>()};
    forward(ctx, x, q.dim(0) / shape.q_rows().length(), shape);
  });
}

}  // namespace tessera::kernels::cuda
