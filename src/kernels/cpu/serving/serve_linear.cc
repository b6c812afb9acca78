// Products with the same bits for any number of tokens: both operands lie along K, so an output is
// one inner product, whose lanes, chunks and tree (base/sum_chunks.h) do not depend on what is
// computed beside it. Few tokens read every weight once, as it is stored: memory's speed is theirs.
// For more, panels of rows are widened once and stay in the cache for all tokens.
#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "base/rounding.h"
#include "base/workspace.h"
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/expert_rows.h"
#include "kernels/cpu/serving/level.h"
#include "kernels/cpu/serving/share.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cpu {
namespace {

// Weights of more than a few tokens are widened before they are used, where inputs are.
template <typename T, typename Input>
inline constexpr bool kWidens = !std::is_same_v<T, Input>;
constexpr int64_t kPanel = workspace::kServePanelRows;
constexpr int64_t kFew = workspace::kServeFewTokens;
// The loops for weights of W.
template <typename W>
const levels::RowProducts<W, Acc<W>>& loops() {
  const levels::Serving& level = serving_level();
  if constexpr (std::is_same_v<W, float>) return level.f32;
  if constexpr (std::is_same_v<W, double>) return level.f64;
  if constexpr (std::is_same_v<W, BFloat16>) return level.bf16;
  if constexpr (std::is_same_v<W, Float16>) return level.f16;
}

int64_t tile_of(int64_t tokens, int64_t tile) { return tokens > kFew ? tile : tokens; }

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

// One token of x as the t-th of a tile of `tokens`, by `step` elements at a time.
template <typename Input, typename T>
void pack_token(const T* x, const Cut& cut, int64_t t, int64_t tokens, int64_t step, Input* tile) {
  for (int64_t c = 0; c < cut.chunks; ++c) {
    Input* to = tile + tokens * c * cut.packed_chunk() + t * step;
    for (int64_t k = cut.begin(c); k < cut.end(c); k += step, to += tokens * step) {
      const int64_t count = std::min(step, cut.end(c) - k);
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Input>(x[k + i]);
      std::fill(to + count, to + step, Input{});
    }
  }
}

// One member's part of a product. T is the storage type, Input what inputs are packed as, Out that
// of y.
template <typename T, typename Input, typename Out>
class Member {
 public:
  using A = Acc<T>;

  Member(const Input* x, const T* w, Out* y, int64_t tokens, int64_t rows, const Cut& cut, A* panel,
         A* sums)
      : x_(x), w_(w), y_(y), tokens_(tokens), rows_(rows), cut_(cut), panel_(panel), sums_(sums) {}

  // Weight rows [begin, end), for all tokens.
  void run(int64_t begin, int64_t end) const {
    for (int64_t n = begin; n < end; n += kPanel) {
      const int64_t count = std::min(kPanel, end - n);
      const T* w = w_ + n * cut_.length;
      if constexpr (kWidens<T, Input>) {
        if (tokens_ > kFew) {
          for (int64_t i = 0; i < count * cut_.length; ++i) panel_[i] = widen(w[i]);
          run_tiles(loops<A>(), panel_, n, count);
          continue;
        }
      }
      run_tiles(loops<T>(), w, n, count);
    }
  }

 private:
  template <typename W>
  void run_tiles(const levels::RowProducts<W, A>& loops, const W* w, int64_t first,
                 int64_t count) const {
    const int64_t tile = tile_of(tokens_, loops.tile);
    for (int64_t t = 0; t < tokens_; t += tile) {
      const int64_t tokens = std::min(tile, tokens_ - t);
      const auto add = loops.add[tokens];
      const int64_t at_once = tokens_ == 1 ? loops.rows_of_one : count;
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

  const Input* x_;
  const T* w_;
  Out* y_;
  int64_t tokens_, rows_;
  Cut cut_;
  A* panel_;
  A* sums_;
};

template <typename T, typename Input, typename Out>
void multiply(Context& ctx, const char* op, const Tensor& x, const Tensor& w, const Tensor& y,
              int64_t chunks) {
  using A = Acc<T>;
  const int64_t tokens = x.dim(0), rows = w.dim(0), length = x.dim(1);
  const Cut cut{length, chunks, (length + chunks - 1) / chunks};
  const int members = ctx.workers.size();
  Scratch scratch(op, ctx.workspace,
                  workspace::serve_linear(x.dtype, tokens, length, chunks, members));
  Input* const inputs = scratch.take<Input>(tokens * cut.packed_token());
  const int64_t tile = tile_of(tokens, loops<T>().tile), step = loops<T>().step;
  const int64_t grain = ceil_div(kWorthSharing, length);
  ctx.workers.parallel_for(tokens, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t / tile * tile;
      pack_token(x.as<T>() + t * length, cut, t - first, std::min(tile, tokens - first), step,
                 inputs + first * cut.packed_token());
    }
  });
  const int64_t panel = kWidens<T, Input> && tokens > kFew ? kPanel * length : 0;
  const int64_t sums = kPanel * workspace::kServeTileTokens * chunks;
  A* const panels = scratch.take<A>(panel * members);
  A* const all_sums = scratch.take<A>(sums * members);
  constexpr int64_t kGrain = 8;
  const int64_t blocks = ceil_div(rows, kGrain);
  share(ctx, tokens * rows * length, [&](int member, int sharing) {
    const int64_t begin = blocks * member / sharing * kGrain;
    const int64_t end = std::min(rows, blocks * (member + 1) / sharing * kGrain);
    Member<T, Input, Out>(inputs, w.as<T>(), y.as<Out>(), tokens, rows, cut,
                          panels + member * panel, all_sums + member * sums)
        .run(begin, end);
  });
}

template <typename T, typename Input>
void choose_output(Context& ctx, const char* op, const Tensor& x, const Tensor& w, const Tensor& y,
                   int64_t chunks) {
  if (y.dtype == x.dtype) return multiply<T, Input, T>(ctx, op, x, w, y, chunks);
  multiply<T, Input, Acc<T>>(ctx, op, x, w, y, chunks);
}

}  // namespace

void serve_linear(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, int64_t chunks) {
  constexpr const char* kOp = "serve_linear";
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (loops<T>().as_stored) return choose_output<T, T>(ctx, kOp, x, w, y, chunks);
    choose_output<T, Acc<T>>(ctx, kOp, x, w, y, chunks);
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
