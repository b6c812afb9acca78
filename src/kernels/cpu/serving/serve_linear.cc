// Products with the same bits for any number of tokens: both operands lie along K, so an output is
// one inner product, whose lanes, chunks and tree (base/sum_chunks.h) do not depend on what is
// computed beside it. Few tokens read every weight once, as it is stored: memory's speed is theirs.
// For more, panels of rows are widened once and stay in the cache for all tokens.
#include <algorithm>
#include <array>

#include "base/error.h"
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
// Weight rows that are multiplied at once with `tokens` tokens: as many sums as registers hold.
constexpr int rows_at_once(int tokens) {
  constexpr int kSums = kVectorBytes == 64 ? 24 : 12;
  return std::clamp(kSums / tokens, 1, 8);
}
// Tokens of a tile where there are many.
constexpr int kTile = kVectorBytes == 64 ? 6 : 4;

// How K is cut.
struct Cut {
  int64_t length, chunks, chunk;
  [[nodiscard]] int64_t begin(int64_t c) const { return std::min(length, c * chunk); }
  [[nodiscard]] int64_t end(int64_t c) const { return std::min(length, (c + 1) * chunk); }
};

// The sums of [begin, end) of K for a tile; sums[n * kServeTileTokens + t].
template <typename W, int tokens, int rows>
void add_up(const Acc<W>* x, const W* w, int64_t ld, int64_t begin, int64_t end, Acc<W>* sums) {
  using A = Acc<W>;
  constexpr int64_t kStep = kWidth<A>;
  Vector<A> acc[rows][tokens] = {};
  int64_t k = begin;
  for (; k + kStep <= end; k += kStep) {
    Vector<A> inputs[tokens];
    for (int t = 0; t < tokens; ++t) inputs[t] = load(x + t * ld + k);
    for (int n = 0; n < rows; ++n) {
      const Vector<A> weights = load(w + n * ld + k);
      for (int t = 0; t < tokens; ++t) acc[n][t] += inputs[t] * weights;
    }
  }
  if (k < end) {
    Vector<A> inputs[tokens];
    for (int t = 0; t < tokens; ++t) inputs[t] = load(x + t * ld + k, end - k);
    for (int n = 0; n < rows; ++n) {
      const Vector<A> weights = load(w + n * ld + k, end - k);
      for (int t = 0; t < tokens; ++t) acc[n][t] += inputs[t] * weights;
    }
  }
  for (int n = 0; n < rows; ++n) {
    for (int t = 0; t < tokens; ++t) {
      sums[n * workspace::kServeTileTokens + t] = sum_lanes<A, kWidth<A>>(acc[n][t]);
    }
  }
}

// Rows [0, count) of w for `tokens` tokens and one chunk, as many rows at once as there are.
template <typename W, int tokens>
void add_up_rows(const Acc<W>* x, const W* w, int64_t ld, int64_t count, int64_t begin, int64_t end,
                 Acc<W>* sums) {
  constexpr int kRows = rows_at_once(tokens);
  constexpr int64_t kStride = workspace::kServeTileTokens;
  int64_t n = 0;
  for (; n + kRows <= count; n += kRows) {
    add_up<W, tokens, kRows>(x, w + n * ld, ld, begin, end, sums + n * kStride);
  }
  for (; n < count; ++n) {
    add_up<W, tokens, 1>(x, w + n * ld, ld, begin, end, sums + n * kStride);
  }
}

template <typename W>
using AddUpRows = void (*)(const Acc<W>*, const W*, int64_t, int64_t, int64_t, int64_t, Acc<W>*);
template <typename W>
constexpr std::array<AddUpRows<W>, 9> kAddUpRows = {
    nullptr,           add_up_rows<W, 1>, add_up_rows<W, 2>, add_up_rows<W, 3>, add_up_rows<W, 4>,
    add_up_rows<W, 5>, add_up_rows<W, 6>, add_up_rows<W, 7>, add_up_rows<W, 8>};

// One member's part of a product. T is the storage type, Out that of y.
template <typename T, typename Out>
class Member {
 public:
  using A = Acc<T>;

  Member(const A* x, const T* w, Out* y, int64_t tokens, int64_t rows, const Cut& cut, A* panel,
         A* sums)
      : x_(x), w_(w), y_(y), tokens_(tokens), rows_(rows), cut_(cut), panel_(panel), sums_(sums) {}

  // Weight rows [begin, end), for all tokens.
  void run(int64_t begin, int64_t end) const {
    for (int64_t n = begin; n < end; n += kPanel) {
      const int64_t count = std::min(kPanel, end - n);
      const T* w = w_ + n * cut_.length;
      if constexpr (kIsNarrow<T>) {
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
    const int64_t tile = tokens_ > kFew ? kTile : tokens_;
    for (int64_t t = 0; t < tokens_; t += tile) {
      const int64_t tokens = std::min(tile, tokens_ - t);
      for (int64_t c = 0; c < cut_.chunks; ++c) {
        kAddUpRows<W>[static_cast<size_t>(tokens)](x_ + t * cut_.length, w, cut_.length, count,
                                                   cut_.begin(c), cut_.end(c), part(c));
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

  const A* x_;
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
  const A* inputs = nullptr;
  if constexpr (kIsNarrow<T>) {
    A* const wide = scratch.take<A>(tokens * length);
    ctx.workers.parallel_for(tokens, kFew, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * length; i < end * length; ++i) wide[i] = widen(x.as<T>()[i]);
    });
    inputs = wide;
  } else {
    inputs = x.as<T>();
  }
  const int64_t panel = kIsNarrow<T> && tokens > kFew ? kPanel * length : 0;
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
