// Kernels of a mixture-of-experts layer: routing, moving rows, balancing.
#include <algorithm>

#include "base/cuda_workspace.h"
#include "kernels/experts.h"
#include "kernels/testing/cuda_support.h"
#include "kernels/testing/moe_layer.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

const std::vector<MoeSizes> kSizes = {
    {1, 1, 1, 1, 1},     {7, 4, 2, 5, 2},       {33, 6, 3, 17, 3},
    {50, 8, 2, 16, 8},   {130, 65, 5, 72, 5},   {3000, 64, 8, 24, 2},
    {40, 40, 40, 8, 10}, {100, 2000, 3, 40, 4}, {65, 128, 8, 1040, 1}};

std::string words(const MoeSizes& s, DType type) {
  return fmt::format("{} tokens, {} of {} experts, width {}, {} peers, {}", s.tokens, s.k,
                     s.experts, s.width, s.peers, name_of(type));
}

TEST(CudaRouter, MatchesTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(1);
  Rig cpu;
  GpuRig gpu;
  for_each_case(kSizes, [&](const MoeSizes& s, DType type) {
    SCOPED_TRACE(words(s, type));
    const DType acc = accumulate_type(type);
    const Array logits = Array(type, {s.tokens, s.experts}).randomise(rng, 2);
    Array gates(acc, {s.tokens, s.k}), ids(DType::kI32, {s.tokens, s.k});
    OnGpu gates_gpu(gates), ids_gpu(ids);
    kernels::router(cpu, logits, gates, ids);
    kernels::router(gpu, OnGpu(logits), gates_gpu, ids_gpu);
    EXPECT_TRUE(ids_gpu.get().same_bits(ids));
    expect_same(gates_gpu, gates, tolerance(acc));

    const OnGpu same_gates(gates), same_ids(ids);
    const Array d_gates = Array(acc, {s.tokens, s.k}).randomise(rng);
    Array d_logits(type, {s.tokens, s.experts});
    OnGpu d_logits_gpu(d_logits);
    for (const bool accumulate : {false, true}) {
      kernels::router_grad(cpu, d_gates, gates, ids, d_logits, accumulate);
      kernels::router_grad(gpu, OnGpu(d_gates), same_gates, same_ids, d_logits_gpu, accumulate);
      expect_same(d_logits_gpu, d_logits, tolerance(type));
    }
  });
}

TEST(CudaRouter, TiesGoToTheLowestIdAndIdsDiffer) {
  SKIP_WITHOUT_GPU();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  GpuRig gpu;
  Array logits(DType::kF32, {4, 4});
  const std::vector<double> numbers = {1,    1,    1,    1,    0,     3,    3,     3,
                                       kNan, kNan, kNan, kNan, -kInf, kInf, -kInf, kInf};
  for (int64_t i = 0; i < logits.size(); ++i) logits.set(i, numbers[static_cast<size_t>(i)]);
  OnGpu gates(Array(DType::kF32, {4, 3})), ids(Array(DType::kI32, {4, 3}));
  kernels::router(gpu, OnGpu(logits), gates, ids);
  EXPECT_EQ(ids.get().values(), (std::vector<double>{0, 1, 2, 1, 2, 3, 0, 1, 2, 1, 3, 0}));
  for (int64_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(static_cast<float>(gates.get().get(i)), 1.F / 3);
}

struct StatsSizes {
  int64_t tokens, experts, k, sequences, first_token, tokens_per_sequence;
};

TEST(CudaRouterStats, MatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(2);
  Rig cpu;
  for (const StatsSizes& s : {StatsSizes{1, 1, 1, 1, 0, 1}, StatsSizes{6, 5, 2, 3, 5, 4},
                              StatsSizes{200, 64, 8, 3, 30, 100}, StatsSizes{300, 7, 3, 40, 11, 8},
                              StatsSizes{1000, 130, 2, 2, 500, 1000}}) {
    GpuRig gpu(workspace::cuda::router_stats(s.sequences, s.tokens_per_sequence, s.experts));
    const RouterRows rows{s.first_token, s.tokens_per_sequence};
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} tokens, {} experts, {}", s.tokens, s.experts, name_of(type)));
      const double relative = tolerance(accumulate_type(type));
      const Array logits = Array(type, {s.tokens, s.experts}).randomise(rng);
      Array gates(accumulate_type(type), {s.tokens, s.k}), ids(DType::kI32, {s.tokens, s.k});
      kernels::router(cpu, logits, gates, ids);
      Array stats(DType::kF64, {s.sequences, 2 * s.experts + 1});
      Array load = Array(DType::kF64, {s.experts}).fill(100);
      const OnGpu logits_gpu(logits), ids_gpu(ids);
      OnGpu stats_gpu(stats), load_gpu(load), again(stats), load_again(load);
      for (const bool accumulate : {false, true}) {
        kernels::router_stats(cpu, logits, ids, rows, stats, load, accumulate);
        kernels::router_stats(gpu, logits_gpu, ids_gpu, rows, stats_gpu, load_gpu, accumulate);
        kernels::router_stats(gpu, logits_gpu, ids_gpu, rows, again, load_again, accumulate);
        expect_same(stats_gpu, stats, relative);
        EXPECT_TRUE(load_gpu.get().same_bits(load));
        EXPECT_TRUE(again.get().same_bits(stats_gpu.get()));
      }
      const Array d_stats = Array(DType::kF64, {s.sequences, 2 * s.experts + 1}).randomise(rng);
      Array d_logits(type, {s.tokens, s.experts});
      OnGpu d_logits_gpu(d_logits);
      for (const bool accumulate : {false, true}) {
        kernels::router_stats_grad(cpu, logits, d_stats, rows, d_logits, accumulate);
        kernels::router_stats_grad(gpu, logits_gpu, OnGpu(d_stats), rows, d_logits_gpu, accumulate);
        expect_same(d_logits_gpu, d_logits, tolerance(type));
      }
    }
  }
}

TEST(CudaMoeRows, MatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(3);
  for (const MoeSizes& s : kSizes) {
    const int64_t num_rows = s.peers * capacity_of(s);
    Rig cpu(1, workspace::dispatch_rows(s.experts));
    GpuRig gpu(std::max(workspace::cuda::dispatch_rows(s.tokens * s.k, s.experts),
                        workspace::cuda::combine_rows_grad(num_rows)));
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(words(s, type));
      MoeLayer l(s, type, rng);
      OnGpu rows(l.rows), counts(l.counts), slots(l.slots), gates(l.gates);
      kernels::dispatch_rows(cpu, l.x, l.ids, l.rows, l.counts, l.slots);
      kernels::dispatch_rows(gpu, OnGpu(l.x), OnGpu(l.ids), rows, counts, slots);
      EXPECT_TRUE(counts.get().same_bits(l.counts));
      EXPECT_TRUE(slots.get().same_bits(l.slots));
      EXPECT_TRUE(rows.get().same_bits(l.rows));
      EXPECT_EQ(gpu.gpu().trouble()->code, Trouble::kNone);

      const Array out = Array(type, {num_rows, s.width}).randomise(rng);
      const Array dy = Array(type, {s.tokens, s.width}).randomise(rng);
      const OnGpu out_gpu(out);
      Array y(type, {s.tokens, s.width}), dx = y, d_gates(l.gates.type(), {s.tokens, s.k});
      Array d_rows(type, {num_rows, s.width});
      OnGpu y_gpu(y), dx_gpu(dx), d_gates_gpu(d_gates), d_rows_gpu(d_rows);
      kernels::combine_rows(cpu, out, l.slots, l.gates, y);
      kernels::combine_rows(gpu, out_gpu, slots, gates, y_gpu);
      expect_same(y_gpu, y, tolerance(type));
      kernels::dispatch_rows_grad(cpu, out, l.slots, dx);
      kernels::dispatch_rows_grad(gpu, out_gpu, slots, dx_gpu);
      expect_same(dx_gpu, dx, tolerance(type));
      kernels::combine_rows_grad(cpu, dy, out, l.slots, l.gates, d_rows, d_gates);
      kernels::combine_rows_grad(gpu, OnGpu(dy), out_gpu, slots, gates, d_rows_gpu, d_gates_gpu);
      expect_same(d_gates_gpu, d_gates, tolerance(d_gates.type()));
      EXPECT_TRUE(d_rows_gpu.get().same_bits(d_rows));
    }
  }
}

TEST(CudaMoeRows, OverflowIsReportedAndWritesNothingElsewhere) {
  SKIP_WITHOUT_GPU();
  constexpr int64_t kTokens = 6, kCapacity = 4, kWidth = 3;
  GpuRig gpu(std::max(workspace::cuda::dispatch_rows(kTokens, 4),
                      workspace::cuda::combine_rows_grad(2 * kCapacity)));
  const Array x = Array(DType::kF32, {kTokens, kWidth}).fill(1);
  Array ids = Array(DType::kI32, {kTokens, 1}).fill(1);
  ids.set(0, 0);
  // The second block of the rows is followed by what must stay as it is.
  OnGpu all(Array(DType::kF32, {3 * kCapacity * kWidth}));
  const Tensor& memory = all;
  Tensor rows(memory.data, DType::kF32, {2, kCapacity, kWidth});
  OnGpu counts(Array(DType::kI32, {2, 2})), slots(Array(DType::kI32, {kTokens, 1}));
  kernels::dispatch_rows(gpu, OnGpu(x), OnGpu(ids), rows, counts, slots);
  EXPECT_EQ(counts.get().values(), (std::vector<double>{1, 3, 0, 0}));
  EXPECT_EQ(slots.get().values(), (std::vector<double>{0, 1, 2, 3, -1, -1}));
  const Array got = all.get();
  for (int64_t i = 0; i < kCapacity * kWidth; ++i) {
    EXPECT_EQ(got.get(i), 1);
    EXPECT_EQ(got.get(kCapacity * kWidth + i), 0);
    EXPECT_TRUE(std::isnan(got.get(2 * kCapacity * kWidth + i)));
  }
  const Trouble& trouble = *gpu.gpu().trouble();
  EXPECT_EQ(trouble.code, Trouble::kBlockOverflow);
  EXPECT_EQ(trouble.detail[0], 0);
  EXPECT_EQ(trouble.detail[1], kTokens);
  EXPECT_EQ(trouble.detail[2], kCapacity);
  // What comes after leaves out the choices that have no row.
  const Array gates = Array(DType::kF32, {kTokens, 1}).fill(2);
  OnGpu y(Array(DType::kF32, {kTokens, kWidth})), d_gates(gates);
  OnGpu d_rows(Array(DType::kF32, {2 * kCapacity, kWidth}));
  kernels::combine_rows(gpu, rows, slots, OnGpu(gates), y);
  kernels::combine_rows_grad(gpu, OnGpu(x), rows, slots, OnGpu(gates), d_rows, d_gates);
  for (int64_t t = 0; t < kTokens; ++t) {
    EXPECT_EQ(y.get().get(t * kWidth), t < kCapacity ? 2 : 0);
    EXPECT_EQ(d_gates.get().get(t), t < kCapacity ? kWidth : 0);
  }
}

TEST(CudaBalance, MatchesTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(4);
  Rig cpu;
  cpu.params().loss_scale = 16;
  struct Case {
    int64_t experts, sequences, seq_len, group, first_sequence, sequences_here;
  };
  for (const Case& c : {Case{1, 1, 1, 1, 0, 1}, Case{3, 5, 4, 2, 0, 5}, Case{130, 7, 33, 3, 2, 4},
                        Case{64, 12, 100, 12, 0, 12}, Case{300, 9, 10, 1, 3, 6}}) {
    SCOPED_TRACE(fmt::format("{} experts, {} sequences", c.experts, c.sequences));
    GpuRig gpu(workspace::cuda::balance_loss(c.sequences));
    gpu.set_params(cpu.params());
    const BalanceShape shape{.experts = c.experts,
                             .layers = 2,
                             .seq_len = c.seq_len,
                             .group = c.group,
                             .first_sequence = c.first_sequence,
                             .coef = 0.7};
    const int64_t columns = 2 * c.experts + 1;
    const Array stats = Array(DType::kF64, {c.sequences, columns}).randomise(rng);
    Array labels(DType::kI32, {c.sequences * c.seq_len});
    for (int64_t i = 0; i < labels.size(); ++i) labels.set(i, rng() % 3 == 0 ? -100.0 : 1.0);
    Array totals(DType::kF64, {c.sequences, columns}), loss = Array(DType::kF64, {1}).fill(3);
    Array d_totals = totals;
    const OnGpu labels_gpu(labels);
    OnGpu totals_gpu(totals), in_place(stats), loss_gpu(loss), d_totals_gpu(totals);
    kernels::balance_totals(cpu, stats, labels, totals);
    kernels::balance_totals(gpu, OnGpu(stats), labels_gpu, totals_gpu);
    kernels::balance_totals(gpu, in_place, labels_gpu, in_place);
    EXPECT_TRUE(totals_gpu.get().same_bits(totals));
    EXPECT_TRUE(in_place.get().same_bits(totals));

    const auto mine = [&](const Tensor& all) {
      return Tensor(all.as<int32_t>() + c.first_sequence * c.seq_len, DType::kI32,
                    {c.sequences_here * c.seq_len});
    };
    for (const bool accumulate : {true, false, true}) {
      kernels::balance_loss(cpu, totals, mine(labels), c.sequences_here, shape, loss, accumulate);
      kernels::balance_loss(gpu, totals_gpu, mine(labels_gpu), c.sequences_here, shape, loss_gpu,
                            accumulate);
      EXPECT_NEAR(loss_gpu.get().get(0), loss.get(0), 1e-11 * (1 + std::abs(loss.get(0))));
    }
    kernels::balance_grad(cpu, totals, shape, d_totals);
    kernels::balance_grad(gpu, totals_gpu, shape, d_totals_gpu);
    expect_same(d_totals_gpu, d_totals, 1e-12);
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
