#include "compile/scale/scale_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/testing/share.h"
#include "compile/program/memory_parts.h"
#include "compile/step.h"
#include "compile/testing/random_run.h"
#include "compile/testing/test_spec.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// Nothing is left out of what a rank needs and sends.
bool equals_compiled(const RunSpec& spec, const ScalePlan& plan) {
  const StepGraph step = build_step(spec, StepKind::kTraining);
  EXPECT_EQ(plan.num_parameters, step.layout.num_parameters);
  int64_t ranks = 0;
  for (const ClassTotals& one : plan.classes) ranks += one.ranks.ranks;
  EXPECT_EQ(ranks, step.mesh.world());
  bool equal = ranks == step.mesh.world();
  for (int rank = 0; rank < static_cast<int>(step.mesh.world()); ++rank) {
    const Program program = lower(step, rank);
    const ClassTotals& one = plan.class_of_rank(rank);
    const ArenaBytes parts = memory_parts(program);
    for (const ArenaKind arena : kTrainingArenas) {
      const auto a = static_cast<size_t>(arena);
      EXPECT_EQ(one.memory[a], parts[a]) << name_of(arena) << " of rank " << rank;
      equal = equal && one.memory[a] == parts[a];
    }
    EXPECT_EQ(one.in_flight, program.live_micro_batches);
    equal = equal && one.in_flight == program.live_micro_batches;
    const std::vector<Traffic> sent = traffic_of(program);
    const std::vector<Traffic> planned = plan.traffic(rank);
    EXPECT_EQ(planned.size(), sent.size()) << "rank " << rank;
    equal = equal && planned == sent;
    for (size_t i = 0; i < std::min(sent.size(), planned.size()); ++i) {
      EXPECT_EQ(planned[i].group + " " + planned[i].op, sent[i].group + " " + sent[i].op);
      EXPECT_EQ(planned[i].calls, sent[i].calls) << sent[i].group << " " << sent[i].op;
      EXPECT_EQ(planned[i].bytes_sent, sent[i].bytes_sent) << sent[i].group << " " << sent[i].op;
    }
    if (!equal) break;
  }
  return equal;
}

// TESSERA_RANDOM_RUNS asks for more of them.
testing::Share random_runs() {
  const char* asked = std::getenv("TESSERA_RANDOM_RUNS");
  return asked == nullptr ? testing::share_of(200, 4) : testing::Share{0, std::atoll(asked)};
}

TEST(ScalePlan, EqualsTheCompiledProgramsOfRandomRuns) {
  testing::RandomRun random(2026);
  const testing::Share runs = random_runs();
  int64_t done = 0;
  int64_t pipelined = 0;
  for (int64_t drawn = 0; done < runs.end; ++drawn) {
    ASSERT_LT(drawn, 200 * runs.end) << "hardly any run is possible";
    RunSpec spec = random.next();
    if (!testing::RandomRun::make_possible(spec)) continue;
    if (++done <= runs.begin) continue;
    pipelined += spec.parallel.pp > 1 ? 1 : 0;
    ASSERT_TRUE(equals_compiled(spec, ScalePlanner().plan(spec)))
        << "run " << done << ": " << to_json(spec).dump();
  }
  EXPECT_GT(pipelined, runs.size() / 5);
}

// Stages of many blocks come from smaller ones.
TEST(ScalePlan, EqualsTheCompiledProgramsOfDeepRuns) {
  testing::RandomRun random(11);
  const testing::Share runs = testing::share_of(25, 4);
  int64_t done = 0;
  while (done < runs.end) {
    RunSpec spec = random.next();
    spec.model.layers += 18;
    spec.parallel.stage_layers.clear();
    spec.parallel.pp = std::min<int64_t>(spec.parallel.pp, 2);
    spec.train.global_batch = spec.train.micro_batch * spec.parallel.replicas() * (1 + done % 3);
    if (!testing::RandomRun::make_possible(spec)) continue;
    if (++done <= runs.begin) continue;
    ASSERT_TRUE(equals_compiled(spec, ScalePlanner().plan(spec)))
        << "run " << done << ": " << to_json(spec).dump();
  }
}

// With codes, scales and what ranks say to each other about them; blocks that stay in bf16 are no
// blocks of a template.
TEST(ScalePlan, EqualsTheCompiledProgramsOfRunsInEightBits) {
  for (const char* mesh : {"dp=2", "fsdp=2,tp=2,zero=3", "pp=2,tp=2,sequence_parallel=true",
                           "pp=2,cp=2,dp=2,recompute=full"}) {
    for (const Fp8Recipe recipe : {Fp8Recipe::kTensor, Fp8Recipe::kRow, Fp8Recipe::kBlock}) {
      for (const int64_t first : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} {} {}", mesh, name_of(recipe), first));
        RunSpec spec = testing::small_spec(mesh);
        spec.model.layers = 8;
        spec.train.seq_len = 16;
        spec.train.global_batch = 8;
        spec.train.dtype = DType::kBF16;
        spec.train.fp8 = {.asked = true, .recipe = recipe, .bf16_first = first};
        if (recipe == Fp8Recipe::kBlock) spec.train.fp8.block = 4;
        resolve(spec);
        EXPECT_TRUE(equals_compiled(spec, ScalePlanner().plan(spec)));
      }
    }
  }
}

RunSpec llama_405b(int64_t micro_batches) {
  const std::vector<std::string> changes = {
      "model.preset=llama-3-405b", "parallel.tp=8",    "parallel.pp=16",
      "parallel.dp=128",           "parallel.zero=1",  "parallel.sequence_parallel=true",
      "train.seq_len=8192",        "train.dtype=bf16",
  };
  RunSpec spec = parse_run_file("", "", changes, nullptr);
  spec.train.threads = 1;
  spec.train.global_batch = 128 * micro_batches;
  resolve(spec);
  return spec;
}

// Many chunks of the loss come from a few.
TEST(ScalePlan, EqualsTheCompiledProgramsOfManyLossChunks) {
  testing::RandomRun random(31);
  const testing::Share runs = testing::share_of(40, 4);
  int64_t done = 0;
  while (done < runs.end) {
    RunSpec spec = random.next();
    const int64_t tokens = spec.train.micro_batch * spec.train.seq_len / spec.parallel.cp;
    spec.train.loss_chunk = std::max<int64_t>(1, tokens / (17 + done));
    if (!testing::RandomRun::make_possible(spec) || tokens < 17) continue;
    if (++done <= runs.begin) continue;
    ASSERT_TRUE(equals_compiled(spec, ScalePlanner().plan(spec)))
        << "run " << done << ": " << to_json(spec).dump();
  }
}

// Stages are compiled, not what they stand for: as many for a long sequence as for a short one.
TEST(ScalePlan, CompilesNoMoreStagesForManyLayersAndMicroBatches) {
  const auto compiled = [](int64_t layers, int64_t micro_batches, int64_t seq_len) {
    RunSpec spec = llama_405b(micro_batches);
    spec.model.layers = layers;
    spec.train.seq_len = seq_len;
    ScalePlanner planner;
    planner.plan(spec);
    return planner.compiled_stages();
  };
  const int64_t few = compiled(16 * 40, 64, 8192);
  EXPECT_EQ(compiled(16 * 1000, 64, 8192), few);
  EXPECT_EQ(compiled(16 * 40, 4096, 8192), few);
  EXPECT_EQ(compiled(16 * 40, 64, int64_t{1} << 31), few);
}

// The peak of one micro-batch is where its activations are, or where its gradients are: which of
// both depends on the blocks, so that stages of six blocks say nothing about 32.
TEST(ScalePlan, EqualsTheCompiledProgramsOfOneMicroBatch) {
  for (const std::vector<std::string>& parallel :
       {std::vector<std::string>{"parallel.dp=8"},
        {"parallel.fsdp=4", "parallel.zero=2", "parallel.tp=2", "parallel.recompute=selective"},
        {"parallel.fsdp=4", "parallel.zero=3", "parallel.tp=2", "parallel.recompute=full"}}) {
    std::vector<std::string> changes = {"model.preset=llama-2-7b", "train.seq_len=4096",
                                        "train.dtype=bf16", "train.threads=1"};
    changes.insert(changes.end(), parallel.begin(), parallel.end());
    RunSpec spec = parse_run_file("", "", changes, nullptr);
    spec.train.global_batch = spec.train.micro_batch * spec.parallel.replicas();
    resolve(spec);
    ASSERT_TRUE(equals_compiled(spec, ScalePlanner().plan(spec))) << to_json(spec).dump();
  }
}

// Routers' losses go from block to block: behind stages without blocks there is none to receive.
TEST(ScalePlan, EqualsTheCompiledProgramsOfEndsWithoutExperts) {
  for (const std::string layers : {"[0, 1, 1, 2]", "[0, 0, 2, 2]", "[0, 0, 0, 4]", "[0, 4, 0, 0]",
                                   "[1, 0, 3, 0]", "[2, 2, 0, 0]"}) {
    for (const std::string schedule : {"1f1b", "interleaved", "zb-v"}) {
      const int64_t pp = schedule == "1f1b" ? 4 : 2;
      const std::vector<std::string> changes = {
          "model.family=mixtral",
          "model.layers=4",
          "model.hidden=32",
          "model.ffn=48",
          "model.heads=4",
          "model.kv_heads=2",
          "model.vocab=64",
          "model.experts=4",
          fmt::format("parallel.pp={}", pp),
          fmt::format("parallel.virtual_stages={}", 4 / pp),
          "parallel.schedule=" + schedule,
          "parallel.stage_layers=" + layers,
          "parallel.fsdp=2",
          "parallel.ep=2",
          "parallel.zero=2",
          "train.seq_len=16",
          "train.micro_batch=1",
          "train.global_batch=8",
          "train.threads=1",
      };
      RunSpec spec = parse_run_file("", "", changes, nullptr);
      resolve(spec);
      ASSERT_TRUE(equals_compiled(spec, ScalePlanner().plan(spec))) << layers << " " << schedule;
    }
  }
}

TEST(ScalePlan, HasAClassForEachStageOf16384Ranks) {
  const ScalePlan plan = ScalePlanner().plan(llama_405b(64));
  EXPECT_EQ(plan.mesh.world(), 16384);
  EXPECT_EQ(plan.classes.size(), 32U);
  // 1F1B: what the first stage has started before its first backward.
  EXPECT_EQ(plan.classes.front().in_flight, (std::map<int, int>{{0, 16}}));
  EXPECT_EQ(plan.classes.back().in_flight, (std::map<int, int>{{15, 1}}));
}

TEST(ScalePlan, UsesTemplatesAgainForOtherBatchesAndPipelines) {
  ScalePlanner planner;
  RunSpec spec = llama_405b(16);
  planner.plan(spec);
  const int64_t compiled = planner.compiled_stages();
  spec.train.global_batch *= 4;
  planner.plan(spec);
  EXPECT_EQ(planner.compiled_stages(), compiled);
}

TEST(ScalePlan, TrafficGrowsByTheSameWithEveryMicroBatch) {
  ScalePlanner planner;
  const auto sent = [&](int64_t micro_batches) {
    const ScalePlan plan = planner.plan(llama_405b(micro_batches));
    int64_t bytes = 0;
    for (const Traffic& t : plan.traffic(1500)) bytes += t.bytes_sent;
    return bytes;
  };
  EXPECT_EQ(sent(65) - sent(64), sent(512) - sent(511));
  EXPECT_GT(sent(65), sent(64));
}

TEST(ScalePlan, RefusesAsynchronousRunsThatAreTooLargeToCompile) {
  RunSpec spec = llama_405b(512);
  spec.parallel.schedule = PipelineKind::kPipedream;
  spec.parallel.zero = 0;
  try {
    ScalePlanner().plan(spec);
    FAIL() << "must be refused";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("pipedream"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("use schedule = \"1f1b\""), std::string::npos);
  }
}

TEST(ScalePlan, RefusesMoreMicroBatchesThanCanBeOrdered) {
  RunSpec spec = llama_405b(1);
  spec.parallel.pp = 1;
  spec.train.global_batch = 128 * (int64_t{1} << 40);
  EXPECT_THROW(ScalePlanner().plan(spec), ConfigError);
}

}  // namespace
}  // namespace tessera
