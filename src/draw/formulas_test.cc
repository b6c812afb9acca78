// The costs that docs/data-parallel.md and docs/tensor-parallel.md state, against the planner.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

constexpr int64_t kMicroBatches = 3, kElement = 4;  // of f32, also of what adds up

struct Plan {
  StepGraph step;
  Program program;  // of rank 0
};

Plan plan_of(const std::string& mesh) {
  RunSpec spec = testing::small_spec(mesh);
  spec.model.hidden = 64;
  spec.model.head_dim = 16;
  spec.model.vocab = 256;
  spec.model.tied = true;
  spec.train.seq_len = 256;
  spec.train.global_batch = kMicroBatches * spec.parallel.replicas();
  Plan plan;
  plan.step = build_step(testing::resolved(std::move(spec)), StepKind::kTraining);
  plan.program = lower(plan.step, 0);
  return plan;
}

int64_t memory(const Plan& plan, ArenaKind arena) {
  return plan.program.arena_bytes[static_cast<size_t>(arena)];
}

Traffic traffic(const Plan& plan, const std::string& group, const std::string& op) {
  for (const Traffic& t : traffic_of(plan.program)) {
    if (t.group == group && t.op == op) return t;
  }
  return {};
}

int64_t weights(const Plan& plan) {
  int64_t sum = 0;
  for (const Bucket& bucket : plan.step.layout.buckets) sum += bucket.numel;
  return sum;
}

TEST(FormulasTest, ZeroSplitsMemoryAsTheTableSays) {
  const int64_t n = 4;
  for (int64_t zero = 0; zero <= 3; ++zero) {
    const Plan plan = plan_of(fmt::format("dp=4,zero={}", zero));
    const int64_t p = weights(plan) * kElement;
    EXPECT_EQ(memory(plan, ArenaKind::kParameters), zero >= 3 ? p / n : p) << zero;
    EXPECT_EQ(memory(plan, ArenaKind::kGradients), zero >= 2 ? p / n : p) << zero;
    EXPECT_EQ(memory(plan, ArenaKind::kOptimizer), zero >= 1 ? 2 * p / n : 2 * p) << zero;
  }
}

TEST(FormulasTest, ZeroSendsWhatTheTableSays) {
  const int64_t n = 4;
  for (int64_t zero = 1; zero <= 3; ++zero) {
    const Plan plan = plan_of(fmt::format("dp=4,zero={}", zero));
    const int64_t once = weights(plan) * kElement * (n - 1) / n;
    EXPECT_EQ(traffic(plan, "dp", "reduce_scatter").bytes_sent,
              zero >= 2 ? kMicroBatches * once : once);
    int64_t gathered = once;
    if (zero == 3) {
      const int64_t gathered_once = plan.step.layout.buckets.back().numel;  // the last norm
      gathered = kMicroBatches * (2 * once - gathered_once * kElement * (n - 1) / n);
    }
    EXPECT_EQ(traffic(plan, "dp", "all_gather").bytes_sent, gathered) << zero;
  }
}

TEST(FormulasTest, HsdpAddsAnAllReduceOfTheSlice) {
  const Plan plan = plan_of("dp=2,fsdp=4,zero=1");
  const int64_t slice = weights(plan) * kElement / 4;
  EXPECT_EQ(traffic(plan, "dp", "all_reduce").bytes_sent, 2 * slice / 2);
  EXPECT_EQ(traffic(plan, "fsdp", "reduce_scatter").bytes_sent, 3 * slice);
  EXPECT_EQ(traffic(plan_of("dp=2,fsdp=4,zero=3"), "dp", "all_reduce").bytes_sent,
            kMicroBatches * slice);
}

TEST(FormulasTest, TensorParallelismSendsWhatTheTableSays) {
  const int64_t n = 4, layers = 2, tokens = 256, hidden = 64;
  const int64_t stream = tokens * hidden * kElement;  // bytes of the residual stream
  const int64_t loss = 3 * (n - 1) * tokens * kElement * kMicroBatches;
  const Plan plain = plan_of("tp=4");
  const Traffic sums = traffic(plain, "tp", "all_reduce");
  EXPECT_EQ(sums.calls, kMicroBatches * (4 * layers + 2));
  EXPECT_EQ(sums.bytes_sent, sums.calls * 2 * (n - 1) * stream / n);
  EXPECT_EQ(traffic(plain, "tp", "all_gather").bytes_sent, loss);

  const Plan split = plan_of("tp=4,sequence_parallel=true");
  const Traffic gathers = traffic(split, "tp", "all_gather");
  const Traffic scatters = traffic(split, "tp", "reduce_scatter");
  EXPECT_EQ(gathers.calls, kMicroBatches * (6 * layers + 2 + 1));
  EXPECT_EQ(gathers.bytes_sent, kMicroBatches * (6 * layers + 2) * (n - 1) * stream / n + loss);
  EXPECT_EQ(scatters.calls, kMicroBatches * (4 * layers + 2));
  EXPECT_EQ(scatters.bytes_sent, scatters.calls * (n - 1) * stream / n);
}

}  // namespace
}  // namespace tessera
