// Planted faults of pipeline, context and expert parallelism and of recomputation: each is found,
// and the first difference in the order of the model is the one that a reader expects.
#include <gtest/gtest.h>

#include <optional>

#include "support/record.h"
#include "support/tiny.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

constexpr double kTolerance = 1e-12;

struct Fault {
  const char* name;
  const char* line;
  const char* fault;
  const char* tensor;  // whose gradient differs first, in step 1
};

const char* const kEmbedding = "model.embed_tokens.weight";

const Fault kFaults[] = {
    // ---- pipeline: what goes from stage to stage, and what the stages at both ends share
    {"PipelineActivation", "pp=2", "drop-message:tensor=layers.0.out", kEmbedding},
    {"PipelineGradient", "pp=2 schedule=zb-h1", "drop-message:tensor=d(layers.0.out)", kEmbedding},
    {"PipelineGradientOfALaterBoundary", "pp=4 layers=4 schedule=gpipe",
     "drop-message:tensor=d(layers.2.out)", kEmbedding},
    {"TiedEnds", "pp=2 tied=true", "drop-cast:tensor=tied embedding sum", kEmbedding},
    {"StageGradientOverDp", "pp=2 dp=2", "drop-cast:tensor=d(layers.1.matrices)",
     "model.layers.1.self_attn.q_proj.weight"},

    // ---- context: keys and values of other ranks, their gradients, weights that all share
    {"ContextRing", "cp=2", "drop-cast:tensor=layers.0.kv.rope.hop1", kEmbedding},
    {"ContextGather", "cp=2 cp_kind=allgather", "drop-cast:tensor=layers.0.kv.all", kEmbedding},
    {"ContextKeyGradient", "cp=2 cp_kind=allgather", "drop-cast:tensor=d(layers.0.kv.rope)",
     kEmbedding},
    {"ContextHeads", "cp=2 cp_kind=ulysses", "drop-cast:tensor=layers.0.q.heads", kEmbedding},
    {"ContextWeightGradient", "cp=2", "drop-cast:tensor=d(layers.0.matrices)",
     "model.layers.0.self_attn.q_proj.weight"},

    // ---- recomputation: what is computed again must be what it was
    {"RecomputedSum", "tp=2 sequence_parallel=true recompute=full",
     "drop-cast:tensor=layers.1.o.sum.again", kEmbedding},
    {"RecomputedGather", "tp=2 sequence_parallel=true recompute=full",
     "drop-cast:tensor=layers.0.mlp_norm.full.again", kEmbedding},

    // ---- experts
    {"ExpertGradientOverDp", "dp=2 family=mixtral experts=4",
     "drop-cast:tensor=d(layers.1.experts)", "model.layers.1.block_sparse_moe.experts.0.w1.weight"},
    {"RouterGradientOverDp", "dp=2 family=mixtral experts=4",
     "drop-cast:tensor=d(layers.1.replicated)", "model.layers.1.block_sparse_moe.gate.weight"},
    {"ExpertTokensOverTp", "tp=2 family=mixtral experts=4", "drop-cast:tensor=layers.0.moe.full",
     kEmbedding},
    {"RolledExpert", "dp=2 family=mixtral experts=4",
     "roll-shard:tensor=model.layers.0.block_sparse_moe.experts.1.w2.weight,rank=1", kEmbedding},
};

std::optional<Difference> first_difference(const StepRecord& mine, const StepRecord& oracle) {
  for (const Difference& d : differences(mine.gradients, oracle.gradients)) {
    if (exceeds(d.relative, kTolerance)) return d;
  }
  return std::nullopt;
}

class NegativeParallelTest : public ::testing::TestWithParam<Fault> {};

TEST_P(NegativeParallelTest, PassesWithoutTheFaultAndFailsWithIt) {
  const Fault& fault = GetParam();
  const TinyCase c = parse_case(fault.line);
  const SampleSource samples = random_samples(c.spec, "some");
  const std::vector<StepRecord> oracle = record(on_one_rank(c.spec), samples);
  ShortRun run = short_run(c.spec, samples);
  run.steps = 1;
  EXPECT_FALSE(first_difference(record_run(run)[0], oracle[0]).has_value());

  run.inject = parse_injection(fault.fault);
  const std::optional<Difference> first = first_difference(record_run(run)[0], oracle[0]);
  ASSERT_TRUE(first.has_value()) << "the fault was not found";
  EXPECT_EQ(first->name, fault.tensor);
  EXPECT_GT(first->relative, 1e-6) << "hardly above rounding";
}

INSTANTIATE_TEST_SUITE_P(Faults, NegativeParallelTest, ::testing::ValuesIn(kFaults),
                         [](const auto& fault) { return std::string(fault.param.name); });

}  // namespace
}  // namespace tessera
