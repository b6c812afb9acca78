// The loops of serving, for the level of the source that includes this: each has functions of its
// own.
#pragma once

#include "kernels/cpu/levels/lanes.h"
#include "kernels/cpu/levels/serving.h"

namespace tessera::kernels::cpu::levels {
namespace {

// Weight rows that are multiplied at once with `tokens` tokens: as many sums as registers hold
// beside the operands of the smaller side.
constexpr int rows_at_once(int tokens) {
  constexpr int kSums = kVectorBytes == 64 ? 24 : 12;
  const int rows = kSums / tokens;
  return rows < 1 ? 1 : rows > 8 ? 8 : rows;
}

// What inputs are kept as where weights are W.
template <typename W>
using Input = typename Products<W>::Input;

// The products of one step of K for a tile. The side that has fewer vectors stays in registers.
template <typename W, int tokens, int rows, typename LoadInput, typename LoadWeight>
inline void add_step(Vector<Wide<W>> (&acc)[rows][tokens], const LoadInput& input,
                     const LoadWeight& weight) {
  using P = Products<W>;
  if constexpr (rows < tokens) {
    typename P::Operand weights[rows];
    for (int n = 0; n < rows; ++n) weights[n] = weight(n);
    for (int t = 0; t < tokens; ++t) {
      const typename P::Operand one = input(t);
      for (int n = 0; n < rows; ++n) P::add(acc[n][t], one, weights[n]);
    }
  } else {
    typename P::Operand inputs[tokens];
    for (int t = 0; t < tokens; ++t) inputs[t] = input(t);
    for (int n = 0; n < rows; ++n) {
      const typename P::Operand one = weight(n);
      for (int t = 0; t < tokens; ++t) P::add(acc[n][t], inputs[t], one);
    }
  }
}

// The sums of `length` of K for a tile whose inputs are packed; sums[n * kServeTileTokens + t].
// Rows are far from each other, so that nobody else fetches the next ones; of one token they are
// read as they lie, and then it only gets in the way.
template <typename W, int tokens, int rows>
void add_up(const Input<W>* x, const W* w, int64_t ld, int64_t length, Wide<W>* sums) {
  using A = Wide<W>;
  using P = Products<W>;
  Vector<A> acc[rows][tokens] = {};
  int64_t k = 0;
  for (; k + P::kStep <= length; k += P::kStep, x += tokens * P::kStep) {
    add_step<W, tokens, rows>(
        acc, [&](int t) { return P::operand(x + t * P::kStep); },
        [&](int n) {
          if constexpr (tokens > 1) __builtin_prefetch(w + (n + rows) * ld + k);
          return P::operand(w + n * ld + k);
        });
  }
  if (k < length) {
    add_step<W, tokens, rows>(
        acc, [&](int t) { return P::operand(x + t * P::kStep); },
        [&](int n) { return P::operand(w + n * ld + k, length - k); });
  }
  A values[rows * tokens];
  sum_lanes_of<A, rows * tokens>(&acc[0][0], values);
  for (int n = 0; n < rows; ++n) {
    for (int t = 0; t < tokens; ++t) {
      sums[n * workspace::kServeTileTokens + t] = values[n * tokens + t];
    }
  }
}

// Rows [0, count) of w for `tokens` tokens and one chunk, as many rows at once as there are.
template <typename W, int tokens>
void add_up_rows(const void* packed, const W* w, int64_t ld, int64_t count, int64_t length,
                 Wide<W>* sums) {
  const auto* const x = static_cast<const Input<W>*>(packed);
  constexpr int kRows = rows_at_once(tokens);
  constexpr int64_t kStride = workspace::kServeTileTokens;
  int64_t n = 0;
  for (; n + kRows <= count; n += kRows) {
    add_up<W, tokens, kRows>(x, w + n * ld, ld, length, sums + n * kStride);
  }
  for (; n < count; ++n) {
    add_up<W, tokens, 1>(x, w + n * ld, ld, length, sums + n * kStride);
  }
}

template <typename W>
constexpr RowProducts<W, Wide<W>> row_products() {
  return {Products<W>::kStep,
          kVectorBytes == 64 ? 6 : 4,
          rows_at_once(1),
          std::is_same_v<W, Input<W>>,
          {nullptr, add_up_rows<W, 1>, add_up_rows<W, 2>, add_up_rows<W, 3>, add_up_rows<W, 4>,
           add_up_rows<W, 5>, add_up_rows<W, 6>, add_up_rows<W, 7>, add_up_rows<W, 8>}};
}

constexpr int64_t kTile = workspace::kPageTile;

// Scores of `rows` rows for all keys of a tile, those that are not there included.
template <typename A, int rows>
void score_rows(const A* queries, int64_t width, const A* keys, int64_t dim, A* scores) {
  constexpr int kStep = kWidth<A>;
  constexpr int kAtOnce = 4;
  for (int64_t k = 0; k < kTile; k += kAtOnce * kStep) {
    Vector<A> acc[rows][kAtOnce] = {};
    for (int64_t d = 0; d < dim; ++d) {
      Vector<A> key[kAtOnce];
      for (int v = 0; v < kAtOnce; ++v) key[v] = load(keys + d * kTile + k + v * kStep);
      for (int r = 0; r < rows; ++r) {
        const Vector<A> query = broadcast(queries[r * width + d]);
        for (int v = 0; v < kAtOnce; ++v) acc[r][v] += query * key[v];
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < kAtOnce; ++v) store(scores + r * kTile + k + v * kStep, acc[r][v]);
    }
  }
}

// out += weights of the keys [begin, end) of a tile times their values, for `rows` rows.
template <typename A, int rows>
void add_values(const A* weights, const A* values, int64_t width, int64_t begin, int64_t end,
                A* out) {
  constexpr int kStep = kWidth<A>;
  for (int64_t d = 0; d < width; d += kStep) {
    Vector<A> acc[rows];
    for (int r = 0; r < rows; ++r) acc[r] = load(out + r * width + d);
    for (int64_t k = begin; k < end; ++k) {
      const Vector<A> value = load(values + k * width + d);
      for (int r = 0; r < rows; ++r) acc[r] += broadcast(weights[r * kTile + k]) * value;
    }
    for (int r = 0; r < rows; ++r) store(out + r * width + d, acc[r]);
  }
}

template <typename A>
void score(int rows, const A* queries, int64_t width, const A* keys, int64_t dim, A* scores) {
  if (rows == 4) return score_rows<A, 4>(queries, width, keys, dim, scores);
  score_rows<A, 1>(queries, width, keys, dim, scores);
}
template <typename A>
void add_all_values(int rows, const A* weights, const A* values, int64_t width, int64_t begin,
                    int64_t end, A* out) {
  if (rows == 4) return add_values<A, 4>(weights, values, width, begin, end, out);
  add_values<A, 1>(weights, values, width, begin, end, out);
}

constexpr Serving kServing = {row_products<float>(),
                              row_products<double>(),
                              row_products<BFloat16>(),
                              row_products<Float16>(),
                              {score<float>, add_all_values<float>},
                              {score<double>, add_all_values<double>}};

}  // namespace
}  // namespace tessera::kernels::cpu::levels
