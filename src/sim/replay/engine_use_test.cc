// Every constant of an engine is part of some price: one that nothing reads would only look like
// knowledge.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cost/engine/engine_catalogue.h"
#include "cost/engine/engine_keys.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/cost_model.h"
#include "sim/replay/contention.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

struct Question {
  Workload workload;
  Strategy strategy;
};

Question question(const std::string& model, const std::string& cluster) {
  Question q;
  q.workload.model = shape_of(find_model(model).model, 4096);
  q.workload.cluster = find_cluster(cluster);
  q.workload.engine = find_engine("megatron").numbers;
  // What megatron.toml has none of.
  q.workload.engine.loss_chunk_sum_passes = 1;
  q.workload.seq_len = 4096;
  q.workload.global_batch = 64;
  q.strategy.dp = q.workload.cluster.devices;
  return q;
}

// Together they have everything that an engine's constants are about.
std::vector<Question> questions() {
  std::vector<Question> all;
  all.push_back(question("llama-3-8b", "h100-16"));
  all.back().strategy.zero = 3;
  all.push_back(question("llama-3-8b", "h100-16"));
  all.back().workload.loss_chunk = 512;
  all.back().workload.precision.adds_gradients_apart = true;
  all.push_back(question("llama-3-8b", "h100-8"));
  all.back().strategy.cp = 2;
  all.back().strategy.dp = 4;
  all.back().workload.fused_loss = true;
  all.push_back(all.back());
  all.back().strategy.context = ContextKind::kAllGather;
  // A pipeline, whose layers are computed again and whose weights are gathered when they are new.
  all.push_back(question("llama-3-8b", "h100-16"));
  all.back().strategy = {.tp = 4, .pp = 2, .dp = 2, .zero = 1, .recompute = Recompute::kFull};
  all.back().workload.overlap.pipeline = true;
  all.push_back(question("gpt-3-6.7b", "a100-8"));
  all.back().workload.attention = AttentionKind::kUnfused;
  all.push_back(question("llama-3-8b", "h100-8"));
  all.back().strategy.tp = 8;
  all.back().strategy.dp = 1;
  all.back().strategy.sequence_parallel = true;
  all.back().workload.overlap.tensor = true;
  for (const MathType products : {MathType::kF16, MathType::kF8}) {
    all.push_back(question("qwen3-30b-a3b", "h100-16"));
    all.back().strategy.ep = 16;
    all.back().workload.precision.products = products;
  }
  // Experts that the host is too slow for, and experts whose rows are the most of what is held.
  all.push_back(question("qwen3-30b-a3b", "h100-16"));
  all.back().strategy.ep = 16;
  all.back().workload.seq_len = 32;
  all.push_back(question("mixtral-8x7b", "h100-16"));
  all.back().strategy = {.pp = 4, .dp = 4, .ep = 4};
  // Experts that are whole on every rank of tp, and more buckets than are updated at once.
  all.push_back(question("mixtral-8x7b", "h100-16"));
  all.back().strategy = {.tp = 2, .dp = 8, .zero = 1};
  all.back().workload.engine = find_engine("tessera").numbers;
  all.back().workload.overlap.data = true;
  // Weight gradients that come later than the collectives that they would run beside.
  all.push_back(question("llama-3-8b", "h100-16"));
  all.back().strategy = {
      .tp = 4, .pp = 2, .dp = 2, .sequence_parallel = true, .schedule = PipelineKind::kZbH1};
  all.back().workload.engine = find_engine("tessera").numbers;
  // Fewer heads of keys than ranks of tp.
  all.push_back(question("qwen3-30b-a3b", "h100-16"));
  all.back().strategy = {.tp = 8, .dp = 2};
  // Tiny: the host and the launches, and tiles of every size.
  all.push_back(question("qwen3-0.6b", "h100-8"));
  all.back().workload.seq_len = 128;
  all.push_back(question("tiny-3m", "h100-8"));
  all.back().workload.seq_len = 128;
  return all;
}

TEST(EngineUseTest, EveryConstantChangesAPrice) {
  for (const EngineKey& key : kEngineKeys) {
    bool changes = false;
    for (const Question& q : questions()) {
      const QuickEstimate before = CostModel(q.workload).quick(q.strategy);
      const Contention contention = contention_of(q.workload.engine);
      Workload other = q.workload;
      double& value = other.engine.*key.field;
      value = key.unit == "0 or 1"     ? 1 - value
              : value == 0             ? std::min(1.0, key.most)
              : value * 1.5 > key.most ? value / 1.5
                                       : value * 1.5;
      const QuickEstimate after = CostModel(other).quick(q.strategy);
      const Contention now = contention_of(other.engine);
      changes = changes || after.step_s != before.step_s || after.peak_bytes != before.peak_bytes ||
                now.collective != contention.collective || now.message != contention.message;
    }
    EXPECT_TRUE(changes) << key.name;
  }
}

}  // namespace
}  // namespace tessera
