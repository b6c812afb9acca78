// What all attention kernels of our own share: which tokens are in a tile, who sees whom, and which
// probabilities are dropped. Tokens of a sequence are counted in order of position, so that what a
// tile sees is one range of them.
#pragma once

#include "kernels/attention.h"
#include "kernels/cuda/device/device.cuh"

namespace tessera::kernels::cuda {

struct TokenRange {
  int64_t begin, end;
};

// Rows and positions of the tokens of one tile. Beyond the sequence the row is -1, and no position
// sees or is seen.
template <int kTile>
struct TileTokens {
  int64_t row[kTile];
  int32_t position[kTile];
};
// Queries also have the first position that each sees; in a tile they never fall, but for those
// beyond the sequence, where it is 0.
template <int kTile>
struct TileQueries : TileTokens<kTile> {
  int32_t start[kTile];
};

// Every thread of the block calls it, with a barrier before the first use.
template <int kTile>
__device__ inline void locate(const SequenceRows& rows, int64_t sequence, int64_t num_sequences,
                              int64_t first, int32_t position_beyond, TileTokens<kTile>& tokens) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile; i += static_cast<int>(blockDim.x)) {
    const int64_t at = first + i;
    if (at >= rows.length()) {
      tokens.row[i] = -1;
      tokens.position[i] = position_beyond;
      continue;
    }
    if (rows.parts == 1) {
      tokens.row[i] = sequence * rows.seq_len + at;
      tokens.position[i] = static_cast<int32_t>(at);
      continue;
    }
    const int64_t chunk = at / rows.chunk_len(), offset = at - chunk * rows.chunk_len();
    tokens.row[i] = rows.first_row(chunk, sequence, num_sequences) + offset;
    tokens.position[i] = static_cast<int32_t>(rows.first_position(chunk) + offset);
  }
}
constexpr int32_t kNoQuery = -1;
constexpr int32_t kNoKey = 0x7fffffff;

// The first position that the query in a row sees.
__device__ inline int32_t first_seen(const AttentionShape& shape, int64_t row, int64_t position) {
  int64_t first = shape.window > 0 ? std::max<int64_t>(0, position + 1 - shape.window) : 0;
  if (shape.starts != nullptr) first = std::max<int64_t>(first, shape.starts[row]);
  return static_cast<int32_t>(first);
}
// Whether a query sees a key.
__device__ inline bool sees(int32_t query, int32_t start, int32_t key) {
  return key <= query && key >= start;
}

template <int kTile>
__device__ inline void locate_queries(const AttentionShape& shape, int64_t sequence,
                                      int64_t num_sequences, int64_t first,
                                      TileQueries<kTile>& queries) {
  locate<kTile>(shape.q_rows(), sequence, num_sequences, first, kNoQuery, queries);
  for (int i = static_cast<int>(threadIdx.x); i < kTile; i += static_cast<int>(blockDim.x)) {
    const int64_t row = queries.row[i];  // as this thread has written it
    queries.start[i] = row < 0 ? 0 : first_seen(shape, row, queries.position[i]);
  }
}

// The sequence of a block, among so many.
struct SequenceOf {
  int64_t sequence, num_sequences;
  [[nodiscard]] __device__ int64_t row(const SequenceRows& rows, int64_t at) const {
    const int64_t chunk = at / rows.chunk_len();
    return rows.first_row(chunk, sequence, num_sequences) + at - chunk * rows.chunk_len();
  }
};

// The keys that some of the queries [first, last] see.
__device__ inline TokenRange keys_seen(const AttentionShape& shape, const SequenceOf& of,
                                       int64_t first, int64_t last) {
  const SequenceRows queries = shape.q_rows(), keys = shape.kv_rows();
  const int64_t end = keys.count_before(queries.position(last) + 1);
  const int32_t start = first_seen(shape, of.row(queries, first), queries.position(first));
  return {keys.count_before(start), end};
}

// The queries that see some of the keys [first, last].
__device__ inline TokenRange queries_seeing(const AttentionShape& shape, const SequenceOf& of,
                                            int64_t first, int64_t last) {
  const SequenceRows queries = shape.q_rows(), keys = shape.kv_rows();
  const int64_t last_key = keys.position(last);
  const int64_t begin = queries.count_before(keys.position(first));
  int64_t end = shape.window > 0 ? queries.count_before(last_key + shape.window) : queries.length();
  if (shape.starts == nullptr) return {begin, end};
  // The first one whose document begins behind all of the keys.
  for (int64_t low = begin; low < end;) {
    const int64_t middle = (low + end) / 2;
    if (shape.starts[of.row(queries, middle)] > last_key) {
      end = middle;
    } else {
      low = middle + 1;
    }
  }
  return {begin, end};
}

__device__ inline int64_t kv_head_of(const AttentionShape& shape, int64_t head) {
  return (shape.first_head + head) / shape.heads_per_kv - shape.first_kv_head;
}

// The local query heads that use local kv head `kv_head`; may be empty.
__device__ inline TokenRange query_heads_of(const AttentionShape& shape, int64_t kv_head) {
  const int64_t first = (kv_head + shape.first_kv_head) * shape.heads_per_kv - shape.first_head;
  return {std::clamp<int64_t>(first, 0, shape.heads),
          std::clamp<int64_t>(first + shape.heads_per_kv, 0, shape.heads)};
}

// What dropout multiplies a probability by, as base/dropout.h draws it.
template <typename A>
class DropoutDraw {
 public:
  __device__ DropoutDraw(const AttentionShape& shape, const StepParams* params, int64_t sequence,
                         int64_t head)
      : on_(shape.dropout.on()) {
    if (!on_) return;
    key_ = with_key(shape.dropout, params).key;
    threshold_ = static_cast<uint32_t>(shape.dropout.rate * 0x1p32);
    kept_ = A{1} / (A{1} - static_cast<A>(shape.dropout.rate));
    sample_ = static_cast<uint32_t>(shape.dropout.first_sample + sequence);
    head_ = static_cast<uint32_t>(shape.first_head + head);
  }
  [[nodiscard]] __device__ bool on() const { return on_; }
  [[nodiscard]] __device__ A factor(int32_t query, int32_t key) const {
    const std::array<uint32_t, 4> draws = philox(
        {static_cast<uint32_t>(key / 4), static_cast<uint32_t>(query), sample_, head_}, key_);
    const int lane = key % 4;
    const uint32_t draw =
        lane < 2 ? (lane == 0 ? draws[0] : draws[1]) : (lane == 2 ? draws[2] : draws[3]);
    return draw < threshold_ ? A{0} : kept_;
  }

 private:
  bool on_;
  std::array<uint32_t, 2> key_{};
  uint32_t threshold_ = 0, sample_ = 0, head_ = 0;
  A kept_{};
};

// How much two softmax results weigh in the one over both sets of keys.
template <typename A>
struct Merged {
  A before, here, lse;
};
template <typename A>
__device__ inline Merged<A> merge(A lse_before, A lse_here) {
  const A top = lse_before > lse_here ? lse_before : lse_here;
  if (isinf(top) && top < A{0}) return {A{0}, A{0}, top};
  const A lse = top + log(exp(lse_before - top) + exp(lse_here - top));
  return {exp(lse_before - lse), exp(lse_here - lse), lse};
}

// What a call reads and writes. A result is an Out: a pointer, or what else knows where to store.
template <typename T, typename Out>
struct ForwardTensors {
  const T* q;
  const T* kv;
  const Acc<T>* o_before;  // null: there are no other keys
  const Acc<T>* lse_before;
  Out o;
  Acc<T>* lse;
};
template <typename T, typename Out>
struct GradTensors {
  const T* q;
  const T* kv;
  const T* o;
  const Acc<T>* lse;
  const T* d_o;
  const Acc<T>* dq_before;  // null: dq starts at zero
  Out dq, dkv;
  Acc<T>* dots;  // [T, heads]: d_o . o
};

// The blocks of a launch, one per tile, head and sequence. Tiles are neighbours, so that those of a
// head find its keys in the cache.
struct TileGrid {
  int64_t tiles, heads, sequences;
};
struct BlockPlace {
  int64_t tile, head, sequence;
  __device__ BlockPlace(int64_t tiles, int64_t heads)
      : tile(blockIdx.x % tiles),
        head(blockIdx.x / tiles % heads),
        sequence(blockIdx.x / (tiles * heads)) {}
};

// Starts kernel(x, shape, sequences, tiles, more..., parameters of the step) on `grid`, each block
// with so many threads and bytes of shared memory.
template <typename Kernel, typename Tensors, typename... More>
void launch(const char* op, Context& ctx, Kernel* kernel, const TileGrid& grid, int threads,
            int shared_bytes, const Tensors& x, const AttentionShape& shape, const More&... more) {
  const int64_t blocks = grid.tiles * grid.heads * grid.sequences;
  TESSERA_CHECK(blocks < int64_t{1} << 31, "{}: {} tiles are too many for one grid", op, blocks);
  tessera::cuda::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes), op);
  kernel<<<static_cast<unsigned>(blocks), threads, shared_bytes, ctx.gpu->stream()>>>(
      x, shape, grid.sequences, grid.tiles, more..., ctx.params);
  check_launch(op);
}

}  // namespace tessera::kernels::cuda
