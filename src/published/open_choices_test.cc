// Runs as papers tell them, with what they leave out: each is expressed, and priced as somebody
// would have run it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cost/step/cost_model.h"
#include "cost/step/stages.h"
#include "published/entry.h"
#include "published/memory_measures.h"

namespace tessera {
namespace {

using nlohmann::json;

json llama_70b() {
  return json::parse(R"({
    "id": "own-llama-70b",
    "model": {"name": "llama-2-70b", "layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8,
              "ffn": 28672, "vocab": 32000, "gated_mlp": true, "tied_embeddings": false},
    "hw": {"gpu": "A100-80GB", "gpus": 64, "gpus_per_node": 8, "interconnect": "1600 Gb/s per node"},
    "parallel": {"tp": 8, "pp": 4, "dp": 2, "vp": 1, "zero": 1, "sp": true, "schedule": "1f1b"},
    "batch": {"micro": 1, "global": 128, "seq": 4096},
    "opts": {"recompute": "none", "attention": "flash", "precision": "bf16"},
    "results": {"iter_time_s": 30}})");
}

double step_s(const PublishedRun& run) { return CostModel(run.workload).step_s(run.strategy); }

// With the measures that are taken where recomputation is open, if it is.
bool fits(const PublishedRun& run, bool open = false) {
  MemoryMeasures memory(run.workload, open);
  memory.price_batch(run.workload.global_batch);
  return memory.fits(run.strategy);
}

TEST(OpenChoicesTest, ZeroThreeHasNoOtherSplitUnlessItIsNamed) {
  for (const char* words : {"DeepSpeed ZeRO-3", "zero stage 3 (deepspeed)", "ZeRO3", "FSDP",
                            "FSDP2 full shard", "deepspeed stage3"}) {
    json run = llama_70b();
    run["parallel"] = {{"zero", words}};
    const PublishedRun read = run_of_entry(run);
    EXPECT_EQ(read.strategy.zero, 3) << words;
    EXPECT_EQ(read.strategy.tp * read.strategy.pp, 1) << words;
    EXPECT_EQ(read.strategy.dp, 64) << words;
    EXPECT_EQ(read.engine,
              std::string(words).find("eep") == std::string::npos ? "megatron" : "deepspeed");
    EXPECT_TRUE(read.workload.overlap.data) << words;
  }
  json split = llama_70b();
  split["parallel"] = {{"zero", "FSDP"}, {"tp", 8}};
  EXPECT_EQ(run_of_entry(split).strategy.tp, 8);
  EXPECT_EQ(run_of_entry(split).strategy.dp, 8);
}

TEST(OpenChoicesTest, TheEngineIsTheOneThatTheEntryNames) {
  json run = llama_70b();
  EXPECT_EQ(run_of_entry(run).engine, "megatron");
  run["framework"] = "Megatron-DeepSpeed";
  EXPECT_EQ(run_of_entry(run).engine, "deepspeed");
  run["framework"] = "Megatron-LM";
  run["parallel"]["schedule"] = "1f1b (DeepSpeed)";
  EXPECT_EQ(run_of_entry(run).engine, "megatron");
  run.erase("framework");
  EXPECT_EQ(run_of_entry(run).engine, "deepspeed");
}

TEST(OpenChoicesTest, OpenRecomputationIsTheLeastThatFits) {
  json run = llama_70b();
  run["opts"]["recompute"] = nullptr;
  const PublishedRun easy = run_of_entry(run);  // 70B on 64 devices: plenty of room
  EXPECT_TRUE(fits(easy));
  run["batch"]["seq"] = 32768;
  const PublishedRun tight = run_of_entry(run);
  EXPECT_EQ(tight.strategy.recompute, Recompute::kFull);
  EXPECT_TRUE(fits(tight, true));
  EXPECT_FALSE(tight.memory_is_certain);
  // One layer less would not fit.
  ASSERT_GT(tight.strategy.recompute_layers, 0);
  PublishedRun less = tight;
  --less.strategy.recompute_layers;
  EXPECT_FALSE(fits(less, true));
  for (const char* words : {"varies", "not stated", "recipe-specific"}) {
    run["opts"]["recompute"] = words;
    EXPECT_EQ(run_of_entry(run).strategy.recompute_layers, tight.strategy.recompute_layers)
        << words;
  }
  for (const char* words : {"full", "activation checkpointing", "gradient checkpointing"}) {
    run["opts"]["recompute"] = words;
    EXPECT_EQ(run_of_entry(run).strategy.recompute_layers, -1) << words;
    EXPECT_EQ(run_of_entry(run).strategy.recompute, Recompute::kFull) << words;
  }
}

// A guess is never slower than what it was chosen from.
TEST(OpenChoicesTest, AnOpenMicroBatchIsTheFastestThatFits) {
  json run = llama_70b();
  run["batch"]["micro"] = nullptr;
  const PublishedRun open = run_of_entry(run);
  EXPECT_TRUE(fits(open));
  for (const int micro : {1, 2, 4, 8}) {
    run["batch"]["micro"] = micro;
    const PublishedRun said = run_of_entry(run);
    if (!fits(said)) continue;
    EXPECT_LE(step_s(open), step_s(said) * (1 + 1e-12)) << micro;
  }
}

// Gradients of 16 bits, then norms and activations computed again, and only then whole layers.
TEST(OpenChoicesTest, CheapMeasuresComeBeforeWholeLayers) {
  json run = llama_70b();
  run["opts"]["recompute"] = nullptr;
  const auto taken = [&](int seq) {
    run["batch"]["seq"] = seq;
    const PublishedRun read = run_of_entry(run);
    return std::pair(read.strategy.recompute, read.strategy.elementwise_again);
  };
  const auto kAgain = ElementwiseAgain::kNormsAndActivations;
  EXPECT_EQ(taken(16384), std::pair(Recompute::kNone, ElementwiseAgain::kNone));
  EXPECT_EQ(taken(24576), std::pair(Recompute::kNone, kAgain));
  EXPECT_EQ(taken(32768), std::pair(Recompute::kFull, ElementwiseAgain::kNone));
}

TEST(OpenChoicesTest, AnOpenMicroBatchDividesTheBatchWhateverItsSize) {
  json run = llama_70b();
  run["model"] = {{"layers", 12}, {"hidden", 768}, {"heads", 12}, {"ffn", 3072}, {"vocab", 50368}};
  run["hw"] = {{"gpu", "A100-40GB"}, {"gpus", 8}, {"gpus_per_node", 8}};
  run["parallel"] = {{"zero", "FSDP FULL_SHARD"}};
  run["batch"] = {{"global", 8 * 3 * 26}, {"seq", 2048}};
  const Strategy exact = run_of_entry(run).strategy;
  EXPECT_EQ(3 * 26 % exact.micro_batch, 0);
  EXPECT_GT(exact.micro_batch, 2);  // of 78 the only power of two
  run["batch"]["grad_accum"] = 6;
  EXPECT_EQ(run_of_entry(run).strategy.micro_batch, 13);
  // Tokens are rounded, so that a batch of 61 sequences is no prime number.
  run["batch"] = {{"tokens_per_batch", 8 * 61 * 2048}, {"seq", 2048}};
  const PublishedRun about = run_of_entry(run);
  EXPECT_GT(about.strategy.micro_batch, 1);
  EXPECT_NEAR(static_cast<double>(about.workload.global_batch), 8 * 61, 8 * 3);
  // A number of micro-batches alone leaves the batch to their size.
  run["batch"] = {{"num_microbatches", 3}, {"seq", 2048}};
  const PublishedRun counted = run_of_entry(run);
  EXPECT_EQ(counted.workload.global_batch, 8 * 3 * counted.strategy.micro_batch);
  EXPECT_TRUE(counted.step_s.has_value());
}

TEST(OpenChoicesTest, WhereNothingFitsTheFastestIsTaken) {
  json run = llama_70b();
  run["hw"]["gpus"] = 8;
  run["parallel"] = {{"tp", 8}, {"pp", 1}, {"dp", 1}, {"vp", 1}, {"zero", 0}};
  run["opts"]["recompute"] = nullptr;
  const PublishedRun read = run_of_entry(run);
  EXPECT_FALSE(fits(read));
  EXPECT_EQ(read.strategy.recompute, Recompute::kNone);
}

// Llama 3: 126 layers over 16 stages, one less on the first and the last.
TEST(OpenChoicesTest, UnevenInterleavedStagesAreExpressed) {
  json run = llama_70b();
  run["model"]["layers"] = 126;
  run["hw"]["gpus"] = 128;
  run["parallel"] = {{"tp", 8}, {"pp", 16}, {"dp", 1}, {"zero", 1}, {"schedule", "interleaved"}};
  for (const int vp : {2, 4, 8}) {
    run["parallel"]["vp"] = vp;
    const PublishedRun read = run_of_entry(run);
    EXPECT_EQ(read.strategy.virtual_stages, vp);
    EXPECT_EQ(StageLayers(read.workload.model, read.strategy).of_rank(0).total(), 7) << vp;
    EXPECT_EQ(StageLayers(read.workload.model, read.strategy).of_rank(15).total(), 7) << vp;
    EXPECT_EQ(StageLayers(read.workload.model, read.strategy).of_rank(7).total(), 8) << vp;
  }
  run["parallel"].erase("vp");
  EXPECT_GT(run_of_entry(run).strategy.virtual_stages, 1);
}

// To gather weights for every micro-batch of a pipeline makes a run several times slower.
TEST(OpenChoicesTest, APipelineSharesWeightsAndGradientsOnce) {
  json run = llama_70b();
  for (const json& zero : {json("FSDP"), json("FSDP2 (ZeRO-3)"), json("FSDP (ZeRO-2)"), json(2)}) {
    run["parallel"]["zero"] = zero;
    EXPECT_EQ(run_of_entry(run).strategy.zero, 1) << zero;
  }
  run["parallel"]["zero"] = "ZeRO-3, gathered for every micro-batch";
  EXPECT_EQ(run_of_entry(run).strategy.zero, 3);
  run["parallel"] = {{"tp", 8}, {"pp", 1}, {"zero", "FSDP (ZeRO-2)"}};
  EXPECT_EQ(run_of_entry(run).strategy.zero, 2);
}

TEST(OpenChoicesTest, InterleavingIsTriedWhereNoOtherScheduleIsNamed) {
  json run = llama_70b();
  run["parallel"].erase("vp");
  const auto stages = [&](const char* schedule) {
    run["parallel"]["schedule"] = schedule;
    return run_of_entry(run).strategy.virtual_stages;
  };
  EXPECT_EQ(stages("1f1b"), 1);
  EXPECT_GT(stages("interleaved 1f1b"), 1);
  EXPECT_EQ(stages("ZB-V"), 2);
  EXPECT_GT(stages(""), 1);
  run["framework"] = "DeepSpeed";
  EXPECT_EQ(stages(""), 1);
  run["parallel"]["vp"] = 1;  // of a table that fills every column
  EXPECT_GT(stages("interleaved 1f1b"), 1);
}

TEST(OpenChoicesTest, OpenAxesTakeTheDevicesThatReplicasLeave) {
  json run = llama_70b();
  for (const char* axis : {"tp", "pp"}) {
    json open = run;
    open["parallel"].erase(axis);
    const Strategy read = run_of_entry(open).strategy;
    EXPECT_EQ(read.tp, 8) << axis;
    EXPECT_EQ(read.pp, 4) << axis;
    EXPECT_EQ(read.dp, 2) << axis;
  }
  run["parallel"] = json::object();
  run["hw"].erase("gpus");  // so many that the model has room
  const PublishedRun any = run_of_entry(run);
  EXPECT_GE(any.workload.cluster.devices, 32);
  EXPECT_TRUE(fits(any));
}

TEST(OpenChoicesTest, ANameOfTheCatalogueIsEnough) {
  const json run = json::parse(R"({"id": "a-b", "model": {"name": "Llama 2 7B"},
    "hw": {"gpu": "H100 SXM", "nodes": 2, "gpus_per_node": 8}, "batch": {"seq": 4096},
    "results": {"tokens_per_s_per_gpu": 9000}})");
  const PublishedRun read = run_of_entry(run);
  EXPECT_EQ(read.workload.model.layers, 32);
  EXPECT_EQ(read.workload.model.ffn, 11008);
  EXPECT_TRUE(read.workload.model.gated_mlp);
  EXPECT_EQ(read.workload.cluster.devices, 16);
  ASSERT_TRUE(read.step_s.has_value());
  EXPECT_GT(step_s(read), 0.3 * *read.step_s);
  EXPECT_LT(step_s(read), 3 * *read.step_s);
}

}  // namespace
}  // namespace tessera
