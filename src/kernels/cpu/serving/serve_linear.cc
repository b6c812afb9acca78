// Products with the same bits for any number of tokens: both operands lie along K, so an output is
// one inner product, whose lanes, chunks and tree (base/sum_chunks.h) do not depend on what is
// computed beside it. Few tokens read every weight once, as it is stored: memory's speed is theirs.
// For more, panels of rows are widened once and stay in the cache for all tokens.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/rounding.h"
#include "base/workspace.h"
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/expert_rows.h"
#include "kernels/cpu/serving/lanes.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kPanel = workspace::kServePanelRows;
constexpr int64_t kFew = workspace::kServeFewTokens;
// Weight rows that are multiplied at once with `tokens` tokens: as many sums as registers hold
// beside the operands of the smaller side.
constexpr int rows_at_once(int tokens) {
  constexpr int kSums = kVectorBytes == 64 ? 24 : 12;
  return std::clamp(kSums / tokens, 1, 8);
}
// Tokens of a tile where there are many.
constexpr int kTile = kVectorBytes == 64 ? 6 : 4;

int64_t tile_of(int64_t tokens) { return tokens > kFew ? kTile : tokens; }

// What inputs are kept as where weights are W.
template <typename W>
using Input = typename Products<W>::Input;
// Whether weights of more than a few tokens, and all inputs, are widened before they are used.
template <typename T>
inline constexpr bool kWidens = !std::is_same_v<T, Input<T>>;

// How K is cut, and how inputs are packed: a tile of tokens after the other, in it a chunk after
// the other, in it a step of each token beside that of the next. Rows as they are stored lie a
// power of two apart and would drive each other out of the cache.
struct Cut {
  int64_t length, chunks, chunk;
  [[nodiscard]] int64_t begin(int64_t c) const { return std::min(length, c * chunk); }
  [[nodiscard]] int64_t end(int64_t c) const { return std::min(length, (c + 1) * chunk); }
  // Elements of a token's chunk, and of a token, with the zeros that fill up steps.
  [[nodiscard]] int64_t packed_chunk() const { return round_up(chunk, workspace::kServeStep); }
  [[nodiscard]] int64_t packed_token() const { return chunks * packed_chunk(); }
};

// One token of x as the t-th of a tile of `tokens`.
template <typename T>
void pack_token(const T* x, const Cut& cut, int64_t t, int64_t tokens, Input<T>* tile) {
  constexpr int64_t kStep = Products<T>::kStep;
  for (int64_t c = 0; c < cut.chunks; ++c) {
    Input<T>* to = tile + tokens * c * cut.packed_chunk() + t * kStep;
    for (int64_t k = cut.begin(c); k < cut.end(c); k += kStep, to += tokens * kStep) {
      const int64_t count = std::min(kStep, cut.end(c) - k);
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Input<T>>(x[k + i]);
      std::fill(to + count, to + kStep, Input<T>{});
    }
  }
}

// The products of one step of K for a tile. The side that has fewer vectors stays in registers.
template <typename W, int tokens, int rows, typename LoadInput, typename LoadWeight>
inline void add_step(Vector<Acc<W>> (&acc)[rows][tokens], const LoadInput& input,
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
void add_up(const Input<W>* x, const W* w, int64_t ld, int64_t length, Acc<W>* sums) {
  using A = Acc<W>;
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
void add_up_rows(const Input<W>* x, const W* w, int64_t ld, int64_t count, int64_t length,
                 Acc<W>* sums) {
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
using AddUpRows = void (*)(const Input<W>*, const W*, int64_t, int64_t, int64_t, Acc<W>*);
template <typename W>
constexpr std::array<AddUpRows<W>, 9> kAddUpRows = {
    nullptr,           add_up_rows<W, 1>, add_up_rows<W, 2>, add_up_rows<W, 3>, add_up_rows<W, 4>,
    add_up_rows<W, 5>, add_up_rows<W, 6>, add_up_rows<W, 7>, add_up_rows<W, 8>};

// One member's part of a product. T is the storage type, Out that of y.
template <typename T, typename Out>
class Member {
 public:
  using A = Acc<T>;

  Member(const Input<T>* x, const T* w, Out* y, int64_t tokens, int64_t rows, const Cut& cut,
         A* panel, A* sums)
      : x_(x), w_(w), y_(y), tokens_(tokens), rows_(rows), cut_(cut), panel_(panel), sums_(sums) {}

  // Weight rows [begin, end), for all tokens.
  void run(int64_t begin, int64_t end) const {
    for (int64_t n = begin; n < end; n += kPanel) {
      const int64_t count = std::min(kPanel, end - n);
      const T* w = w_ + n * cut_.length;
      if constexpr (kWidens<T>) {
        if (tokens_ > kFew) {
          for (int64_t i = 0; i < count * cut_.length; ++i) panel_[i] = widen(w[i]);
          run_tiles<A>(panel_, n, count);
          continue;
        }
      }
      run_tiles<T>(w, n, count);
    }
  }

 private:
  template <typename W>
  void run_tiles(const W* w, int64_t first, int64_t count) const {
    const int64_t tile = tile_of(tokens_);
    for (int64_t t = 0; t < tokens_; t += tile) {
      const int64_t tokens = std::min(tile, tokens_ - t);
      const AddUpRows<W> add = kAddUpRows<W>[static_cast<size_t>(tokens)];
      const int64_t at_once = tokens_ == 1 ? rows_at_once(1) : count;
      for (int64_t n = 0; n < count; n += at_once) {
        for (int64_t c = 0; c < cut_.chunks; ++c) {
          const int64_t begin = cut_.begin(c);
          add(x_ + t * cut_.packed_token() + tokens * c * cut_.packed_chunk(),
              w + n * cut_.length + begin, cut_.length, std::min(at_once, count - n),
              cut_.end(c) - begin, part(c) + n * workspace::kServeTileTokens);
        }
      }
      finish(t, tokens, first, count);
    }
  }

  // The sums of chunks along the tree.
  void finish(int64_t first_token, int64_t tokens, int64_t first, int64_t count) const {
    constexpr int64_t kStride = workspace::kServeTileTokens;
    for (int64_t half = 1; half < cut_.chunks; half *= 2) {
      for (int64_t c = 0; c + half < cut_.chunks; c += 2 * half) {
        A* const to = part(c);
        const A* const from = part(c + half);
        for (int64_t i = 0; i < count * kStride; ++i) to[i] += from[i];
      }
    }
    for (int64_t t = 0; t < tokens; ++t) {
      Out* const to = y_ + (first_token + t) * rows_ + first;
      for (int64_t n = 0; n < count; ++n) to[n] = static_cast<Out>(sums_[n * kStride + t]);
    }
  }

  [[nodiscard]] A* part(int64_t chunk) const {
    return sums_ + chunk * kPanel * workspace::kServeTileTokens;
  }

  const Input<T>* x_;
  const T* w_;
  Out* y_;
  int64_t tokens_, rows_;
  Cut cut_;
  A* panel_;
  A* sums_;
};

template <typename T, typename Out>
void multiply(Context& ctx, const char* op, const Tensor& x, const Tensor& w, const Tensor& y,
              int64_t chunks) {
  using A = Acc<T>;
  const int64_t tokens = x.dim(0), rows = w.dim(0), length = x.dim(1);
  const Cut cut{length, chunks, (length + chunks - 1) / chunks};
  const int members = ctx.workers.size();
  Scratch scratch(op, ctx.workspace,
                  workspace::serve_linear(x.dtype, tokens, length, chunks, members));
  Input<T>* const inputs = scratch.take<Input<T>>(tokens * cut.packed_token());
  const int64_t tile = tile_of(tokens);
  ctx.workers.parallel_for(tokens, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t / tile * tile;
      pack_token(x.as<T>() + t * length, cut, t - first, std::min(tile, tokens - first),
                 inputs + first * cut.packed_token());
    }
  });
  const int64_t panel = kWidens<T> && tokens > kFew ? kPanel * length : 0;
  const int64_t sums = kPanel * workspace::kServeTileTokens * chunks;
  A* const panels = scratch.take<A>(panel * members);
  A* const all_sums = scratch.take<A>(sums * members);
  constexpr int64_t kGrain = 8;
  const int64_t blocks = (rows + kGrain - 1) / kGrain;
  ctx.workers.run([&](int member) {
    const int64_t begin = blocks * member / members * kGrain;
    const int64_t end = std::min(rows, blocks * (member + 1) / members * kGrain);
    Member<T, Out>(inputs, w.as<T>(), y.as<Out>(), tokens, rows, cut, panels + member * panel,
                   all_sums + member * sums)
        .run(begin, end);
  });
}

}  // namespace

void serve_linear(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, int64_t chunks) {
  constexpr const char* kOp = "serve_linear";
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (y.dtype == x.dtype) return multiply<T, T>(ctx, kOp, x, w, y, chunks);
    multiply<T, Acc<T>>(ctx, kOp, x, w, y, chunks);
  });
}

void serve_expert_linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& counts,
                         Tensor& y, int64_t chunks) {
  const ExpertBlocks b = blocks_of("serve_expert_linear", counts, num_rows(x));
  multiply_runs(ctx, b, x, w, y, [&](const Tensor& rows, const Tensor& matrix, Tensor& out) {
    cpu::serve_linear(ctx, rows, matrix, out, chunks);
  });
}

}  // namespace tessera::kernels::cpu
