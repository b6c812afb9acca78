// No kernel allocates, the BLAS included: malloc and its relatives are replaced in this program
// by versions that count.
#include <array>
#include <atomic>
#include <cstdlib>

#include "base/testing/replace_malloc.h"
#include "kernels/experts.h"
#include "kernels/testing/test_support.h"

namespace {

std::atomic<int64_t> allocations{0};

}  // namespace

static void on_allocation(const void* /*caller*/) { ++allocations; }

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

constexpr int64_t kTokens = 96, kWidth = 64, kOut = 80, kVocab = 200;
constexpr AttentionShape kShape{
    .seq_len = 48, .heads = 4, .kv_heads = 2, .head_dim = 16, .heads_per_kv = 2};

// One training step's worth of every kernel, on arrays made beforehand.
struct Step {
  DType type, acc;
  Array ids, table, dtable, x, w_norm, rstd, y, w, h, dw, dw_norm, q, kv, o, lse, dq, dkv, cos, sin;
  Array gate_up, logits, stats, loss, master, m, v, grad, weight, known;

  explicit Step(DType storage)
      : type(storage),
        acc(accumulate_type(storage)),
        ids(DType::kI32, {kTokens}),
        table(type, {kVocab, kWidth}),
        dtable(acc, {kVocab, kWidth}),
        x(type, {kTokens, kWidth}),
        w_norm(type, {kWidth}),
        rstd(acc, {kTokens}),
        y(type, {kTokens, kWidth}),
        w(type, {kOut, kWidth}),
        h(type, {kTokens, kOut}),
        dw(acc, {kOut, kWidth}),
        dw_norm(acc, {kWidth}),
        q(type, {kTokens, 64}),
        kv(type, {kTokens, 64}),
        o(q),
        lse(acc, {kTokens, 4}),
        dq(q),
        dkv(kv),
        cos(acc, {48, 8}),
        sin(acc, {48, 8}),
        gate_up(type, {kTokens, 2 * kOut}),
        logits(type, {kTokens, kVocab}),
        stats(acc, {kTokens, 3}),
        loss(DType::kF64, {1}),
        master(acc, {5000}),
        m(master),
        v(master),
        grad(master),
        weight(type, {5000}),
        known(DType::kF64, {kMetricsHead + 1}) {
    ids.fill(3);
    for (Array* a : {&table, &x, &w_norm, &w, &q, &kv, &cos, &sin, &gate_up, &logits, &master, &m,
                     &v, &grad}) {
      a->fill(0.5);
    }
  }

  void run(Context& ctx) {
    embedding(ctx, ids, table, y, 0);
    rms_norm(ctx, x, w_norm, y, rstd, 1e-5);
    add_rms_norm(ctx, x, x, w_norm, x, y, rstd, 1e-5);
    linear(ctx, y, w, h);
    linear_dx(ctx, h, w, y, false);
    linear_dw(ctx, h, y, dw, true);
    rope(ctx, q, cos, sin, q, 4, false);
    attention(ctx, q, kv, o, lse, kShape);
    attention_grad(ctx, q, kv, o, lse, o, dq, dkv, kShape);
    AttentionShape dropping = kShape;
    dropping.dropout.rate = 0.1;
    attention(ctx, q, kv, o, lse, dropping);
    attention_grad(ctx, q, kv, o, lse, o, dq, dkv, dropping);
    dropout(ctx, x, y, dropping.dropout, SequenceRows{48, 1, 0}, 0);
    Tensor pairs(lse.tensor().data, acc, {kTokens, 2});
    const Tensor head_weight(w_norm.tensor().data, type, {16});
    Tensor head_dw(dw_norm.tensor().data, acc, {16});
    layer_norm(ctx, x, w_norm, w_norm, y, pairs, 1e-5);
    add_layer_norm(ctx, x, x, w_norm, w_norm, x, y, pairs, 1e-5);
    layer_norm_dx(ctx, y, x, w_norm, pairs, x, x);
    layer_norm_dw(ctx, y, x, pairs, dw_norm, false);
    add_positions(ctx, x, table, y, SequenceRows{48, 1, 0}, 0);
    positions_dw(ctx, x, dtable, SequenceRows{48, 1, 0}, 0, false);
    head_norm(ctx, q, head_weight, o, lse, 1e-5);
    head_norm_dx(ctx, o, q, head_weight, lse, dq);
    head_norm_dw(ctx, o, q, lse, head_dw, false);
    add_bias(ctx, x, w_norm, y);
    bias_dw(ctx, x, dw_norm, false);
    gelu(ctx, h, h);
    gelu_grad(ctx, h, h, h);
    swiglu(ctx, gate_up, h);
    swiglu_grad(ctx, h, gate_up, gate_up);
    cross_entropy_stats(ctx, logits, ids, stats, 0, kVocab);
    cross_entropy_loss(ctx, stats, ids, loss, false);
    cross_entropy_grad(ctx, logits, stats, ids, logits, 0, kVocab);
    rms_norm_dx(ctx, y, x, w_norm, rstd, x, x);
    rms_norm_dw(ctx, y, x, rstd, dw_norm, false);
    embedding_dw(ctx, ids, y, dtable, 0, false);
    sum_squares(ctx, std::array<SquaredTensor, 1>{{{grad, kMetricsHead}}}, known);
    add_metrics(ctx, loss, ids, known, 1);
    adamw(ctx, std::array<UpdatedTensors, 1>{{{master, m, v, grad, weight}}}, known, {});
    add(ctx, x, y, x);
    copy(ctx, master, weight);
    accumulate_into(ctx, weight, master);
    scale(ctx, master, 0.5);
    fill_zero(ctx, master);
    (void)first_nonfinite(master);
  }
};

// The kernels of a mixture of experts, two peers with two experts each.
struct ExpertStep {
  DType type, acc;
  Array x, logits, gates, ids, stats, totals, load, rows, counts, slots, w, dw, y, h, loss;

  explicit ExpertStep(DType storage)
      : type(storage),
        acc(accumulate_type(storage)),
        x(type, {kTokens, kWidth}),
        logits(type, {kTokens, 4}),
        gates(acc, {kTokens, 2}),
        ids(DType::kI32, {kTokens, 2}),
        stats(DType::kF64, {2, 9}),
        totals(stats),
        load(DType::kF64, {4}),
        rows(type, {2, 1, 2 * kTokens, kWidth}),
        counts(DType::kI32, {2, 1, 2}),
        slots(ids),
        w(type, {2, kWidth, kWidth}),
        dw(acc, {2, kWidth, kWidth}),
        y(rows),
        h(type, {2, 1, 2 * kTokens, kWidth / 2}),
        loss(DType::kF64, {1}) {
    for (Array* a : {&x, &logits, &load, &w}) a->fill(0.5);
  }

  void run(Context& ctx) {
    router(ctx, logits, gates, ids);
    router_stats(ctx, logits, ids, {0, kTokens / 2}, stats, load, false);
    dispatch_rows(ctx, x, ids, rows, counts, slots);
    expert_linear(ctx, rows, w, counts, y);
    expert_swiglu(ctx, y, counts, h);
    expert_swiglu_grad(ctx, h, y, counts, y);
    expert_linear_dx(ctx, y, w, counts, rows);
    expert_linear_dw(ctx, y, rows, counts, dw, false);
    combine_rows(ctx, rows, slots, gates, x);
    combine_rows_grad(ctx, x, rows, slots, gates, y, gates);
    dispatch_rows_grad(ctx, rows, slots, x);
    const BalanceShape shape{.experts = 4, .seq_len = kTokens / 2, .coef = 0.1};
    balance_totals(ctx, stats, slots, totals);
    balance_loss(ctx, totals, slots, 2, shape, loss, false);
    balance_grad(ctx, totals, shape, stats);
    router_stats_grad(ctx, logits, stats, {0, kTokens / 2}, logits, false);
    router_grad(ctx, gates, gates, ids, logits, true);
  }
};

TEST(Allocation, NoKernelAllocatesAfterItsFirstCall) {
  if (!TESSERA_COUNTS_MALLOC) GTEST_SKIP() << "malloc cannot be replaced here";
  for (const DType type : kFloatTypes) {
    for (const int threads : {1, 2}) {
      Step step(type);
      ExpertStep experts(type);
      Rig rig(threads, int64_t{16} << 20);
      // The BLAS fills its own pool of buffers, one set per thread that ever calls it at once; when
      // that first happens is up to the scheduler, so a stretch without any is waited for.
      int64_t made = -1;
      for (int stretch = 0; made != 0 && stretch < 10; ++stretch) {
        const int64_t before = allocations;
        for (int i = 0; i < 20; ++i) step.run(rig), experts.run(rig);
        made = allocations - before;
      }
      EXPECT_EQ(made, 0) << name_of(type) << " threads " << threads;
    }
  }
}

TEST(Allocation, TheCounterCounts) {
  if (!TESSERA_COUNTS_MALLOC) GTEST_SKIP() << "malloc cannot be replaced here";
  const int64_t before = allocations;
  const std::vector<int> block(1000);
  EXPECT_EQ(block.size(), 1000U);
  EXPECT_GT(allocations - before, 0);
}

}  // namespace
}  // namespace tessera::kernels
