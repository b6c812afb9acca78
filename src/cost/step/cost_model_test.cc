#include "cost/step/cost_model.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/stages.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

Workload workload(const std::string& model, const std::string& cluster, int64_t batch,
                  int64_t seq_len = 4096) {
  Workload w;
  w.model = shape_of(find_model(model).model, seq_len);
  w.cluster = find_cluster(cluster);
  w.engine = find_engine("megatron").numbers;
  w.seq_len = seq_len;
  w.global_batch = batch;
  return w;
}

int64_t part(const StageMemory& stage, MemoryPart which) {
  return stage.bytes[static_cast<size_t>(which)];
}

TEST(CostModelTest, StatesAreEighteenBytesOfAParameter) {
  CostModel model(workload("llama-2-7b", "h100-8", 64));
  Strategy s;
  s.dp = 8;
  const Estimate whole = model.estimate(s);
  const StageMemory& stage = whole.stages.front();
  EXPECT_EQ(part(stage, MemoryPart::kParameters), 2 * 6738415616);
  EXPECT_EQ(part(stage, MemoryPart::kGradients), 4 * 6738415616);
  EXPECT_EQ(part(stage, MemoryPart::kOptimizer), 12 * 6738415616);
  s.zero = 1;
  EXPECT_EQ(part(model.estimate(s).stages.front(), MemoryPart::kOptimizer), 12 * 6738415616 / 8);
  s.zero = 2;
  EXPECT_EQ(part(model.estimate(s).stages.front(), MemoryPart::kGradients), 4 * 6738415616 / 8);
  s.zero = 3;
  EXPECT_EQ(part(model.estimate(s).stages.front(), MemoryPart::kParameters), 2 * 6738415616 / 8);
  EXPECT_GT(part(model.estimate(s).stages.front(), MemoryPart::kGathered), 0);
}

// Korthikanti et al. 2022: sbh (34 + 5as/h) bytes a layer without parallelism, all of it over tp
// with sequence parallelism, 2sbh with full recomputation.
TEST(CostModelTest, ActivationsOfALayerAreThePapersFormula) {
  Workload w = workload("gpt2-xl", "a100-1", 4, 1024);
  w.model.dropout = true;
  w.model.ffn = 4 * w.model.hidden;
  w.attention = AttentionKind::kUnfused;
  w.model.heads = w.model.kv_heads = 20;
  w.model.head_dim = 80;
  const int64_t sbh = 1024 * 4 * 1600;
  const int64_t scores = 5 * 20 * 1024 * 1024 * 4;
  const auto kept = [&](int64_t tp, bool split, Recompute recompute) {
    w.cluster.devices = tp;
    CostModel model(w);
    Strategy s;
    s.tp = tp;
    s.sequence_parallel = split;
    s.micro_batch = 4;
    s.recompute = recompute;
    const Estimate estimate = model.estimate(s);
    const int64_t ends = 8 * 1024 * 4 + sbh / (split ? tp : 1) + 4 * sbh / (split ? tp : 1);
    return part(estimate.stages.front(), MemoryPart::kActivations) - ends;
  };
  EXPECT_EQ(kept(1, false, Recompute::kNone), 48 * (34 * sbh + scores));
  EXPECT_EQ(kept(1, false, Recompute::kSelective), 48 * 34 * sbh);
  EXPECT_EQ(kept(1, false, Recompute::kFull), 48 * 2 * sbh);
  EXPECT_EQ(kept(4, false, Recompute::kNone), 48 * (10 * sbh + 24 * sbh / 4 + scores / 4));
  EXPECT_EQ(kept(4, true, Recompute::kNone), 48 * (34 * sbh / 4 + scores / 4));
}

TEST(CostModelTest, LiveMicroBatchesAreTheSchedulesFormulas) {
  Strategy s;
  s.pp = 4;
  EXPECT_EQ(live_micro_batches(s, 0, 16), 4);
  EXPECT_EQ(live_micro_batches(s, 3, 16), 1);
  EXPECT_EQ(live_micro_batches(s, 0, 2), 2);
  s.schedule = PipelineKind::kGPipe;
  EXPECT_EQ(live_micro_batches(s, 2, 16), 16);
  s.schedule = PipelineKind::kInterleaved;
  s.virtual_stages = 2;
  EXPECT_EQ(live_micro_batches(s, 0, 16), 2 * 3 + 4 + 1);
}

TEST(CostModelTest, StagesAreEqualOrOneShorterAtTheEnds) {
  EXPECT_EQ(EvenStages(24, 4).layers_of(1), 6);
  EXPECT_EQ(EvenStages(22, 8).layers_of(0), 2);
  EXPECT_EQ(EvenStages(22, 8).layers_of(3), 3);
  EXPECT_EQ(EvenStages(126, 16).layers_of(0), 7);
  EXPECT_EQ(EvenStages(126, 16).layers_of(15), 7);
  int64_t sum = 0;
  for (int64_t i = 0; i < 7; ++i) sum += EvenStages(80, 7).layers_of(i);
  EXPECT_EQ(sum, 80);
}

TEST(CostModelTest, TheBubbleOf1F1BIsTheOtherStagesOnce) {
  CostModel model(workload("llama-3-70b", "h100-64", 128, 8192));
  Strategy s;
  s.tp = 8;
  s.pp = 8;
  s.sequence_parallel = true;
  const Estimate estimate = model.estimate(s);
  const double stage =
      (estimate.time.step_s - estimate.time.bubble_s - estimate.time.optimizer_s) / 128;
  EXPECT_GT(estimate.time.bubble_s, 6.5 * stage * 0.9);
  EXPECT_LE(estimate.time.bubble_s, 7 * stage);
  s.virtual_stages = 5;
  s.schedule = PipelineKind::kInterleaved;
  const Estimate interleaved = model.estimate(s);
  EXPECT_LT(interleaved.time.bubble_s, estimate.time.bubble_s / 4);
}

TEST(CostModelTest, MoreAdaptersNeverMakeAStepSlower) {
  Workload w = workload("llama-3-70b", "h100-256", 512, 8192);
  Strategy s;
  s.tp = 8;
  s.dp = 32;
  s.zero = 1;
  const double one = CostModel(w).quick(s).step_s;
  w.cluster.levels[1].bandwidth.value *= 2;
  EXPECT_LT(CostModel(w).quick(s).step_s, one);
}

TEST(CostModelTest, GradientsAreAddedInAllMicroBatchesButTheFirst) {
  Workload w = workload("llama-3-8b", "h100-8", 64);
  const auto added_s = [&](int64_t micro_batch, int64_t zero) {
    Strategy s;
    s.dp = 8;
    s.micro_batch = micro_batch;
    s.zero = zero;
    w.precision.adds_gradients_apart = false;
    const double without = CostModel(w).step_s(s);
    w.precision.adds_gradients_apart = true;
    return CostModel(w).step_s(s) - without;
  };
  const DeviceSpec& device = w.cluster.device;
  // Sums of 32 bits are read and written, gradients of 16 read; the embedding adds few rows.
  const ModelShape& m = w.model;
  const auto weights = static_cast<double>(m.parameters() - m.table_parameters());
  const double once_s =
      10 * weights / (device.memory_bandwidth.value * device.memory_efficiency.value);
  EXPECT_NEAR(added_s(1, 1) / (7 * once_s), 1, 1e-3);
  EXPECT_NEAR(added_s(4, 1) / once_s, 1, 1e-3);
  EXPECT_EQ(added_s(8, 1), 0);
  EXPECT_EQ(added_s(1, 3), 0);
}

TEST(CostModelTest, AHostThatKernelsWaitForCostsTheSameWhateverTheBatch) {
  Workload w = workload("llama-3-8b", "h100-8", 64);
  const auto host_s = [&](int64_t micro_batch) {
    Strategy s;
    s.dp = 8;
    s.micro_batch = micro_batch;
    w.engine.kernels_wait_for_host = 0;
    const double ahead = CostModel(w).step_s(s);
    w.engine.kernels_wait_for_host = 1;
    return (CostModel(w).step_s(s) - ahead) * static_cast<double>(micro_batch);
  };
  EXPECT_GT(host_s(2), 0);
  EXPECT_NEAR(host_s(2), host_s(4), 1e-9);
}

TEST(CostModelTest, PortableAttentionIsSlowerWhereTheDeviceHasItsOwn) {
  const auto slower = [](const char* cluster) {
    Workload w = workload("llama-3-8b", cluster, 64, 32768);
    Strategy s;
    s.dp = 8;
    const double own = CostModel(w).step_s(s);
    w.attention = AttentionKind::kPortableFlash;
    return CostModel(w).step_s(s) / own;
  };
  EXPECT_GT(slower("h100-8"), 1.2);
  EXPECT_EQ(slower("a100-8"), 1);
}

// The parts of a ring get shorter with more ranks, their number and what each costs do not.
TEST(CostModelTest, ARingOfManyRanksGainsLittle) {
  const auto layer_s = [](int64_t cp) {
    Workload w = workload("llama-3-8b", "h100-256", 256, 32768);
    Strategy s;
    s.cp = cp;
    s.dp = 256 / cp;
    return CostModel(w).pass_times(s).forward_s * static_cast<double>(cp);
  };
  EXPECT_LT(layer_s(2), 1.1 * layer_s(1));
  EXPECT_GT(layer_s(64), 1.5 * layer_s(1));
}

TEST(CostModelTest, RefusesWhatCannotBe) {
  const Workload w = workload("llama-3-8b", "h100-8", 64);
  const auto why = [&](auto&& change) {
    Strategy s;
    s.dp = 8;
    change(s);
    return why_impossible(w, s);
  };
  EXPECT_EQ(why([](Strategy&) {}), "");
  EXPECT_EQ(why([](Strategy& s) { s.dp = 4; }),
            "tp * pp * dp * cp is 4 but the cluster has 8 devices");
  EXPECT_EQ(why([](Strategy& s) { s.tp = 0; }), "tp must be from 1 to 16777216, got 0");
  EXPECT_NE(why([](Strategy& s) { s.tp = int64_t{1} << 62; }), "");
  EXPECT_NE(why([](Strategy& s) { s.micro_batch = 3; }), "");
  EXPECT_NE(why([](Strategy& s) { s.ep = 2; }), "");
  Workload huge = w;
  huge.global_batch = int64_t{1} << 40;
  EXPECT_THROW(CostModel{huge}, ConfigError);
  huge = w;
  huge.model.hidden = 0;
  EXPECT_THROW(CostModel{huge}, ConfigError);
  for (int64_t ModelShape::*size : {&ModelShape::layers, &ModelShape::ffn, &ModelShape::heads,
                                    &ModelShape::head_dim, &ModelShape::vocab}) {
    for (const int64_t value : {int64_t{-1}, int64_t{1} << 40, int64_t{1} << 62}) {
      huge = w;
      huge.model.*size = value;
      EXPECT_THROW(CostModel{huge}, ConfigError) << value;
    }
  }
  huge = w;
  huge.precision.products = MathType::kF4;
  EXPECT_THROW(CostModel{huge}, ConfigError);
}

// On random strategies: the quick price is the long one's, no price is below the bound or not a
// number, and the parts add up to the step.
TEST(CostModelTest, PricesAreConsistentOnRandomStrategies) {
  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<int64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  int priced = 0;
  for (const char* name : {"llama-3-70b", "mixtral-8x7b", "gpt2-xl"}) {
    const Workload w = workload(name, "h100-256", 1024);
    CostModel model(w);
    for (int i = 0; i < 3000; ++i) {
      Strategy s;
      s.tp = pick({1, 2, 4, 5, 8});
      s.pp = pick({1, 2, 4, 8, 16});
      s.cp = pick({1, 1, 2, 4});
      s.dp = 256 / (s.tp * s.pp * s.cp);
      s.ep = pick({1, 1, 2, 8});
      s.virtual_stages = pick({1, 1, 2, 3});
      s.zero = pick({0, 1, 2, 3});
      s.micro_batch = pick({1, 2, 4});
      s.sequence_parallel = random() % 2 == 0;
      s.recompute =
          std::array{Recompute::kNone, Recompute::kSelective, Recompute::kFull}[random() % 3];
      s.context = static_cast<ContextKind>(random() % 3);
      s.schedule = s.virtual_stages > 1
                       ? PipelineKind::kInterleaved
                       : (random() % 2 == 0 ? PipelineKind::kGPipe : PipelineKind::k1F1B);
      if (!why_impossible(w, s).empty()) continue;
      ++priced;
      const QuickEstimate quick = model.quick(s);
      const Estimate estimate = model.estimate(s);
      ASSERT_EQ(quick.step_s, estimate.time.step_s);
      int64_t most = 0;
      for (const StageMemory& stage : estimate.stages) most = std::max(most, stage.total());
      ASSERT_EQ(quick.peak_bytes, most);
      ASSERT_GE(quick.step_s, model.work_bound_s(s));
      ASSERT_LT(quick.step_s, 1e6);
      ASSERT_GT(estimate.mfu, 0);
      ASSERT_LE(estimate.mfu, 1);
      double sum = estimate.time.compute_s + estimate.time.bubble_s + estimate.time.optimizer_s;
      for (const double exposed : estimate.time.exposed_s) sum += exposed;
      ASSERT_NEAR(sum / estimate.time.step_s, 1, 1e-9);
    }
  }
  EXPECT_GT(priced, 1000);
}

}  // namespace
}  // namespace tessera
