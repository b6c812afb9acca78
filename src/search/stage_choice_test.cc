#include "search/stage_choice.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/rank_trial.h"
#include "cost/step/stages.h"
#include "search/search.h"
#include "search/space.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

Workload workload(const std::string& model, const std::string& cluster, int64_t layers,
                  int64_t global_batch) {
  Workload w;
  w.model = shape_of(find_model(model).model, 2048);
  if (layers > 0) w.model.layers = layers;
  w.cluster = find_cluster(cluster);
  w.engine = find_engine("megatron").numbers;
  w.seq_len = 2048;
  w.global_batch = global_batch;
  return w;
}

// Every way to give `layers` to `ranks`, each at least `least`.
void each_split(int64_t layers, int64_t ranks, int64_t least, std::vector<int64_t>& begun,
                const std::function<void(const std::vector<int64_t>&)>& visit) {
  if (ranks == 1) {
    begun.push_back(layers);
    visit(begun);
    begun.pop_back();
    return;
  }
  for (int64_t here = least; here <= layers - least * (ranks - 1); ++here) {
    begun.push_back(here);
    each_split(layers - here, ranks - 1, least, begun, visit);
    begun.pop_back();
  }
}

// The shortest busiest rank of all choices, tried one by one; infinite where none fits.
double shortest_by_trying(CostModel& model, const Strategy& strategy, int64_t limit) {
  Strategy s = strategy;
  s.recompute = Recompute::kFull;
  const RankTrial prices = model.rank_trial(s);
  double best = 1e300;
  std::vector<int64_t> begun;
  each_split(model.workload().model.layers, s.pp, s.virtual_stages, begun,
             [&](const std::vector<int64_t>& layers) {
               double busiest = 0;
               for (size_t i = 0; i < layers.size(); ++i) {
                 double rank_s = 1e300;
                 for (int64_t again = 0; again <= layers[i]; ++again) {
                   const auto rank = static_cast<int64_t>(i);
                   if (prices.bytes(rank, layers[i], again) > limit) continue;
                   rank_s = std::min(rank_s, prices.seconds(rank, layers[i], again));
                 }
                 busiest = std::max(busiest, rank_s);
               }
               best = std::min(best, busiest);
             });
  return best;
}

double busiest_of(CostModel& model, const Strategy& strategy, const StageChoice& choice) {
  Strategy s = strategy;
  s.recompute = Recompute::kFull;
  const RankTrial prices = model.rank_trial(s);
  double busiest = 0;
  for (size_t i = 0; i < choice.layers.size(); ++i) {
    busiest = std::max(busiest,
                       prices.seconds(static_cast<int64_t>(i), choice.layers[i], choice.again[i]));
  }
  return busiest;
}

std::vector<ScheduleChoice> all_schedules() {
  return {{PipelineKind::k1F1B, 1}, {PipelineKind::kZbH1, 1},        {PipelineKind::kZbH2, 1},
          {PipelineKind::kZbV, 2},  {PipelineKind::kInterleaved, 2}, {PipelineKind::kDualPipeV, 2}};
}

Strategy on_four_ranks(const ScheduleChoice& schedule) {
  Strategy s;
  s.pp = 4;
  s.schedule = schedule.kind;
  s.virtual_stages = schedule.virtual_stages;
  return s;
}

// Memory from what nothing fits in to what all fits in.
std::vector<int64_t> limits_of(CostModel& model, Strategy s) {
  s.recompute = Recompute::kNone;
  const int64_t most = model.peak_bytes(s);
  s.recompute = Recompute::kFull;
  const int64_t least = model.peak_bytes(s);
  std::vector<int64_t> limits;
  for (int64_t i = -1; i <= 9; ++i) limits.push_back(least + (most - least) * i / 8);
  return limits;
}

TEST(StageChoiceTest, TheBusiestRankIsAsShortAsAnyChoiceHasIt) {
  int choices = 0, uneven = 0, mixed = 0;
  for (const char* name : {"llama-3-8b", "llama-3.2-1b", "gpt2-xl", "mixtral-8x7b"}) {
    const Workload w = workload(name, "h100-4", 9, 16);
    CostModel model(w);
    for (const ScheduleChoice& schedule : all_schedules()) {
      for (const int64_t zero : {0, 3}) {
        Strategy s = on_four_ranks(schedule);
        s.pp = zero == 3 ? 2 : 4;
        s.dp = 4 / s.pp;
        s.zero = zero;
        for (const int64_t limit : limits_of(model, s)) {
          const double best = shortest_by_trying(model, s, limit);
          const std::optional<StageChoice> choice = shortest_stages(model, s, limit);
          ASSERT_EQ(choice.has_value(), best < 1e300) << name << ' ' << limit;
          if (!choice.has_value()) continue;
          EXPECT_EQ(busiest_of(model, s, *choice), best) << name << ' ' << limit;
          EXPECT_LE(least_busiest_s(model, s), best);
          const Strategy chosen = with_stages(w, s, *choice);
          EXPECT_EQ(why_impossible(w, chosen), "");
          EXPECT_LE(model.peak_bytes(chosen), limit);
          ++choices;
          uneven += chosen.stage_layers.empty() ? 0 : 1;
          mixed += chosen.stage_recompute.empty() ? 0 : 1;
        }
      }
    }
  }
  EXPECT_GT(choices, 200);
  EXPECT_GT(uneven, 50);
  EXPECT_GT(mixed, 50);
}

TEST(StageChoiceTest, EqualStagesComputeNoMoreAgainThanTheyMust) {
  const Workload w = workload("llama-3-8b", "h100-4", 0, 32);
  CostModel model(w);
  Strategy s;
  s.pp = 4;
  Strategy full = s;
  full.recompute = Recompute::kFull;
  const RankTrial prices = model.rank_trial(full);
  for (const int64_t limit : limits_of(model, s)) {
    const std::optional<StageChoice> choice = fewest_again(model, s, limit);
    if (!choice.has_value()) continue;
    for (size_t i = 0; i < choice->again.size(); ++i) {
      const auto rank = static_cast<int64_t>(i);
      const int64_t again = choice->again[i];
      EXPECT_LE(prices.bytes(rank, choice->layers[i], again), limit);
      if (again > 0) {
        EXPECT_GT(prices.bytes(rank, choice->layers[i], again - 1), limit);
      }
      // Later ranks keep fewer micro-batches.
      if (i > 0 && i + 1 < choice->again.size()) {
        EXPECT_LE(again, choice->again[i - 1]);
      }
    }
  }
}

TEST(StageChoiceTest, TheFullestRankIsAsSmallAsAnyChoiceHasIt) {
  const Workload w = workload("llama-3.2-1b", "h100-4", 9, 16);
  CostModel model(w);
  for (const ScheduleChoice& schedule : all_schedules()) {
    const Strategy s = on_four_ranks(schedule);
    const std::optional<StageChoice> choice = smallest_stages(model, s);
    ASSERT_TRUE(choice.has_value());
    const int64_t peak = model.peak_bytes(with_stages(w, s, *choice));
    Strategy full = s;
    full.recompute = Recompute::kFull;
    const RankTrial prices = model.rank_trial(full);
    std::vector<int64_t> begun;
    each_split(
        w.model.layers, s.pp, s.virtual_stages, begun, [&](const std::vector<int64_t>& layers) {
          int64_t fullest = 0;
          for (size_t i = 0; i < layers.size(); ++i) {
            int64_t least = INT64_MAX;
            for (int64_t again = 0; again <= layers[i]; ++again) {
              least = std::min(least, prices.bytes(static_cast<int64_t>(i), layers[i], again));
            }
            fullest = std::max(fullest, least);
          }
          ASSERT_LE(peak, fullest);
        });
  }
}

// The bound that lets a search leave out choices of stages.
TEST(StageChoiceTest, TheBoundIsBelowEveryChoiceOfStages) {
  std::mt19937 random(7);
  const auto below = [&](int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
  };
  int configurations = 0;
  for (const char* name : {"llama-3-8b", "llama-3.2-1b", "gpt2-xl", "mixtral-8x7b"}) {
    const Workload w = workload(name, "a100-32", 13, 64);
    CostModel model(w);
    const std::vector<Strategy> groups = search_space(w, {}).groups;
    for (int i = 0; i < 4000; ++i) {
      Strategy s = groups[static_cast<size_t>(below(static_cast<int64_t>(groups.size())))];
      const Variants variants = variants_of(w, s, {});
      const auto any = [&](const auto& list) {
        return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
      };
      const ScheduleChoice schedule = any(variants.schedules);
      s.schedule = schedule.kind;
      s.virtual_stages = schedule.virtual_stages;
      const ShardingChoice sharding = any(variants.shardings);
      s.zero = sharding.zero;
      s.shard = sharding.shard;
      s.release_after_forward = sharding.release_after_forward;
      if (!can_choose_stages(w, s)) continue;
      const double bound = model.stages_bound_s(s);
      const double tighter = model.stages_bound_s(s, least_busiest_s(model, s));
      const int64_t stages = s.pp * s.virtual_stages;
      s.stage_layers.assign(static_cast<size_t>(stages), 1);
      for (int64_t left = w.model.layers - stages; left > 0; --left) {
        ++s.stage_layers[static_cast<size_t>(below(stages))];
      }
      if (below(3) > 0) {
        s.recompute = Recompute::kFull;
        for (const int64_t layers : s.stage_layers) s.stage_recompute.push_back(below(layers + 1));
      }
      ASSERT_EQ(why_impossible(w, s), "");
      ASSERT_LE(tighter, model.step_s(s));
      ASSERT_LE(model.stages_bound_bytes(s), model.peak_bytes(s)) << name;
      ASSERT_LE(bound, model.step_s(s)) << name << " pp " << s.pp << ' ' << name_of(s.schedule);
      ++configurations;
    }
  }
  EXPECT_GT(configurations, 5000);
}

TEST(StageChoiceTest, WithoutALimitTheLeastBusiestRankIsFound) {
  for (const char* name : {"llama-3-8b", "llama-3.2-1b", "gpt2-xl", "mixtral-8x7b"}) {
    for (const int64_t layers : {8, 9, 11, 32}) {
      const Workload w = workload(name, "h100-4", layers, 16);
      CostModel model(w);
      for (const ScheduleChoice& schedule : all_schedules()) {
        const Strategy s = on_four_ranks(schedule);
        const std::optional<StageChoice> choice = shortest_stages(model, s, INT64_MAX);
        ASSERT_TRUE(choice.has_value());
        const double busiest = busiest_of(model, s, *choice);
        EXPECT_NEAR(least_busiest_s(model, s), busiest, 1e-6 * busiest);
        EXPECT_LE(least_busiest_s(model, s), busiest);
      }
    }
  }
}

TEST(StageChoiceTest, StagesThatSayNothingAreLeftOut) {
  const Workload w = workload("llama-3-8b", "h100-4", 8, 16);
  Strategy s;
  s.pp = 4;
  Strategy chosen = with_stages(w, s, {{2, 2, 2, 2}, {0, 0, 0, 0}});
  EXPECT_TRUE(chosen.stage_layers.empty() && chosen.stage_recompute.empty());
  EXPECT_EQ(chosen.recompute, Recompute::kNone);
  chosen = with_stages(w, s, {{2, 2, 2, 2}, {2, 2, 2, 2}});
  EXPECT_TRUE(chosen.stage_recompute.empty());
  EXPECT_EQ(chosen.recompute, Recompute::kFull);
  chosen = with_stages(w, s, {{1, 3, 2, 2}, {1, 0, 0, 0}});
  EXPECT_EQ(chosen.stage_layers, (std::vector<int64_t>{1, 3, 2, 2}));
  EXPECT_EQ(chosen.stage_recompute, (std::vector<int64_t>{1, 0, 0, 0}));
}

}  // namespace
}  // namespace tessera
