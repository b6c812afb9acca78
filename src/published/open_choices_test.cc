// Runs as papers tell them, with what they leave out: each is expressed, and priced as somebody
// would have run it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cost/step/cost_model.h"
#include "cost/step/stages.h"
#include "published/entry.h"

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

bool fits(const PublishedRun& run) {
  const DeviceSpec& device = run.workload.cluster.device;
  return static_cast<double>(CostModel(run.workload).peak_bytes(run.strategy)) <=
         device.memory_bytes.value - device.reserved_bytes.value;
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
  run["batch"]["micro"] = 1;
  const PublishedRun easy = run_of_entry(run);  // 70B on 64 devices: plenty of room
  EXPECT_TRUE(fits(easy));
  run["batch"]["seq"] = 32768;
  const PublishedRun tight = run_of_entry(run);
  EXPECT_EQ(tight.strategy.recompute, Recompute::kFull);
  EXPECT_TRUE(fits(tight));
  EXPECT_FALSE(tight.memory_is_certain);
  // One layer less would not fit.
  ASSERT_GT(tight.strategy.recompute_layers, 0);
  PublishedRun less = tight;
  --less.strategy.recompute_layers;
  EXPECT_FALSE(fits(less));
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
