// Strategies of the cost model and run files say the same things: what is written of a strategy is
// read back as that strategy.
#include "plan/strategy_of_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/cost_model.h"
#include "plan/memory_limit.h"
#include "plan/run_of_strategy.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[engine_() % values.size()];
  }
  int64_t whole(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(engine_() % static_cast<uint64_t>(most - least + 1));
  }
  bool truth() { return engine_() % 2 == 0; }

 private:
  std::mt19937_64 engine_;
};

const Engine& own_engine() {
  static const Engine engine = find_engine(std::string(kOwnEngine));
  return engine;
}

struct Drawn {
  Workload workload;
  Strategy strategy;
};

Strategy draw_split(Draw& draw) {
  Strategy s;
  s.tp = draw.of<int64_t>({1, 2, 4, 8});
  s.cp = draw.of<int64_t>({1, 1, 2});
  s.pp = draw.of<int64_t>({1, 2, 4});
  s.dp = draw.of<int64_t>({1, 2, 4, 8});
  s.micro_batch = draw.of<int64_t>({1, 2});
  s.sequence_parallel = s.tp > 1 && draw.truth();
  s.context = draw.of({ContextKind::kRing, ContextKind::kAllGather, ContextKind::kUlysses});
  s.zero = draw.whole(0, 3);
  if (s.zero == 3 && s.dp == 8 && draw.truth()) s.shard = draw.of<int64_t>({2, 4}) * s.cp;
  s.release_after_forward = draw.truth();
  return s;
}

void draw_pipeline(Draw& draw, Strategy& s) {
  if (s.pp == 1) return;
  s.schedule = draw.of({PipelineKind::kGPipe, PipelineKind::k1F1B, PipelineKind::kInterleaved,
                        PipelineKind::kZbH1, PipelineKind::kZbV});
  if (s.schedule == PipelineKind::kInterleaved || s.schedule == PipelineKind::kZbV) {
    s.virtual_stages = 2;
  }
  if (s.schedule == PipelineKind::k1F1B)
    s.one_micro_batch_at_a_time = draw.of({false, false, true});
}

void draw_layers(Draw& draw, int64_t layers, Strategy& s) {
  const int64_t stages = s.pp * s.virtual_stages;
  if (s.pp > 1 && draw.truth()) {
    s.stage_layers.assign(static_cast<size_t>(stages), layers / stages);
    ++s.stage_layers.front();
    --s.stage_layers.back();
  }
  s.recompute = draw.of({Recompute::kNone, Recompute::kSelective, Recompute::kFull});
  if (s.recompute == Recompute::kNone) {
    s.elementwise_again = draw.of({ElementwiseAgain::kNone, ElementwiseAgain::kNorms,
                                   ElementwiseAgain::kNormsAndActivations});
  }
  if (s.recompute != Recompute::kFull) return;
  switch (draw.whole(0, 2)) {
    case 0:
      break;  // all of them
    case 1:
      s.recompute_layers = draw.whole(1, layers / s.pp);
      break;
    default:
      for (int64_t i = 0; i < stages; ++i) s.stage_recompute.push_back(draw.whole(0, 9));
  }
}

Drawn draw_strategy(uint64_t seed) {
  Draw draw(seed);
  Drawn drawn;
  Strategy& s = drawn.strategy;
  s = draw_split(draw);
  draw_pipeline(draw, s);
  Workload& w = drawn.workload;
  w.engine = own_engine().numbers;
  w.cluster = with_devices(find_cluster("h100-16384"), s.world());
  const std::vector<std::string> preset = {"model.preset=llama-3-8b"};
  const RunSpec model = parse_run_file("", "", preset, nullptr);
  w.seq_len = 4096;
  w.model = shape_of(model.model, w.seq_len);
  w.global_batch = 8 * s.micro_batch * s.dp * s.pp;
  draw_layers(draw, w.model.layers, s);
  return drawn;
}

RunSpec read_back(const Drawn& drawn) {
  ModelSpec model;
  model.preset = "llama-3-8b";
  RunSpec spec =
      parse_run_file(run_file_of(model, drawn.workload, drawn.strategy), "", {}, nullptr);
  use_cluster_defaults(spec, drawn.workload.cluster);
  resolve(spec);
  return spec;
}

TEST(StrategyOfRunTest, OfTheRunFileOfAStrategyIsThatStrategy) {
  int compared = 0, pipelines = 0, by_stage = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const Drawn drawn = draw_strategy(seed);
    if (!why_impossible(drawn.workload, drawn.strategy).empty()) continue;
    ASSERT_EQ(unsayable_choice(drawn.workload, drawn.strategy), "");
    const RunStrategy back =
        strategy_of_run(read_back(drawn), drawn.workload.cluster, own_engine());
    ModelSpec model;
    model.preset = "llama-3-8b";
    EXPECT_TRUE(back.strategy == as_run_files_say(drawn.workload, drawn.strategy))
        << "seed " << seed << "\n"
        << run_file_of(model, drawn.workload, drawn.strategy);
    EXPECT_EQ(back.workload.global_batch, drawn.workload.global_batch);
    EXPECT_EQ(back.workload.seq_len, drawn.workload.seq_len);
    ++compared;
    pipelines += drawn.strategy.pp > 1 ? 1 : 0;
    by_stage += back.strategy.stage_recompute.empty() ? 0 : 1;
  }
  EXPECT_GT(compared, 400);
  EXPECT_GT(pipelines, 200);
  EXPECT_GT(by_stage, 50);
}

// The words of run files mean the same to the cost model, but for "selective", which computes more
// again than attention.
TEST(StrategyOfRunTest, TheWordsOfRunFilesCostTheSame) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Drawn drawn = draw_strategy(seed);
    const Strategy& s = drawn.strategy;
    const bool rounded = s.recompute_layers > 0 && s.virtual_stages > 1;  // to whole stages
    if (!why_impossible(drawn.workload, s).empty() || rounded) continue;
    CostModel model(drawn.workload);
    const double as_it_is = model.quick(s).step_s;
    const double as_said = model.quick(as_run_files_say(drawn.workload, s)).step_s;
    if (s.recompute == Recompute::kSelective) {
      EXPECT_GT(as_said, as_it_is);
    } else {
      EXPECT_NEAR(as_said, as_it_is, 1e-12 * as_it_is) << seed;
      ++compared;
    }
  }
  EXPECT_GT(compared, 80);
}

TEST(StrategyOfRunTest, NoticesAnotherStrategy) {
  Drawn drawn = draw_strategy(1);
  drawn.strategy = {.tp = 2, .dp = 4};
  drawn.workload.cluster = with_devices(drawn.workload.cluster, 8);
  const RunStrategy back = strategy_of_run(read_back(drawn), drawn.workload.cluster, own_engine());
  EXPECT_TRUE(back.strategy == drawn.strategy);
  drawn.strategy.zero = 1;
  EXPECT_FALSE(back.strategy == drawn.strategy);
}

}  // namespace
}  // namespace tessera
