#include "search/search.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "base/testing/share.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "search/simulated_strategy.h"
#include "search/stage_choice.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

Workload workload(const std::string& model, const std::string& cluster, int64_t seq_len,
                  int64_t global_batch) {
  Workload w;
  w.model = shape_of(find_model(model).model, seq_len);
  w.cluster = find_cluster(cluster);
  w.engine = find_engine("megatron").numbers;
  w.seq_len = seq_len;
  w.global_batch = global_batch;
  return w;
}

// Small spaces in which memory is sometimes short, sometimes plenty.
std::vector<Workload> small_workloads() {
  std::vector<Workload> all = {
      workload("llama-3-8b", "h100-16", 4096, 16),   workload("llama-2-7b", "pc-4x24-8", 2048, 8),
      workload("mixtral-8x7b", "h100-16", 2048, 16), workload("gpt2-xl", "v100-12", 1024, 24),
      workload("llama-3.2-3b", "two-pcs", 2048, 12), workload("qwen2-0.5b", "a100-4", 1024, 8)};
  Workload unfused = workload("gpt-3-6.7b", "a100-16", 2048, 16);
  unfused.attention = AttentionKind::kUnfused;
  all.push_back(unfused);
  return all;
}

void expect_same(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].step_s, b[i].step_s) << i;
    EXPECT_EQ(a[i].peak_bytes, b[i].peak_bytes) << i;
    EXPECT_FALSE(is_better(Objective::kTime, a[i], b[i])) << i;
    EXPECT_FALSE(is_better(Objective::kTime, b[i], a[i])) << i;
  }
}

TEST(SearchTest, BoundsLeaveOutNothingThatIsAmongTheBest) {
  for (const Workload& w : testing::share_of(small_workloads(), 2)) {
    for (const Objective objective : {Objective::kTime, Objective::kMemory}) {
      SearchRequest request{.workload = w, .objective = objective};
      request.keep = 5;
      const SearchOutcome pruned = search_strategies(request);
      request.exhaustive = true;
      const SearchOutcome all = search_strategies(request);
      SCOPED_TRACE(w.cluster.name);
      ASSERT_FALSE(all.best.empty());
      expect_same(pruned.best, all.best);
      EXPECT_LT(pruned.priced, all.priced);
    }
  }
}

TEST(SearchTest, TriesOrdersThatKeepExpertsInsideANode) {
  const Workload w = workload("mixtral-8x7b", "h100-64", 2048, 64);
  CostModel model(w);
  int others = 0;
  for (const Strategy& s : search_space(w, {}).groups) {
    if (s.order == RankOrder::kTensorDataPipeline) continue;
    if (s.ep > 1) {
      Strategy first = s;
      first.order = RankOrder::kTensorDataPipeline;
      const int64_t span = s.ep * expert_strides_of(s).ep;
      EXPECT_LE(span, std::max<int64_t>(8, s.ep * expert_strides_of(first).ep));
    }
    ++others;
  }
  EXPECT_GT(others, 100);
  // Two pipeline ranks and four ranks of experts fill a node: messages stay inside.
  Strategy near;
  near.pp = 2;
  near.dp = 32;
  near.ep = 4;
  Strategy far = near;
  near.order = RankOrder::kTensorPipelineData;
  EXPECT_EQ(expert_strides_of(near).ep, 2);
  const MessageSeconds inside = model.pipeline(near).messages.front();
  const MessageSeconds outside = model.pipeline(far).messages.front();
  EXPECT_LT(inside.latency_s + inside.wire_s, outside.latency_s + outside.wire_s);
}

// Loops over everything that has a name, without what the search knows about its space.
std::optional<Candidate> best_by_trying(const Workload& w) {
  CostModel model(w);
  std::optional<Candidate> best;
  const int64_t n = w.cluster.devices, limit = usable_bytes(w.cluster);
  const auto meet = [&](const Strategy& s) {
    if (!why_impossible(w, s).empty()) return;
    const QuickEstimate price = model.quick(s);
    if (price.peak_bytes > limit) return;
    const Candidate candidate{s, price.step_s, price.peak_bytes};
    if (!best.has_value() || is_better(Objective::kTime, candidate, *best)) best = candidate;
  };
  const auto with_recomputation = [&](Strategy s) {
    meet(s);
    s.recompute = Recompute::kFull;
    meet(s);
    for (int64_t k = 1; k < w.model.layers; ++k) {
      s.recompute_layers = k;
      meet(s);
    }
    if (!can_choose_stages(w, s)) return;
    // That these are the best choices of stages is stage_choice_test's business.
    for (const auto& choice : {fewest_again(model, s, limit), shortest_stages(model, s, limit)}) {
      if (choice.has_value()) meet(with_stages(w, s, *choice));
    }
  };
  const auto with_sharding = [&](Strategy s) {
    for (s.zero = 0; s.zero <= (s.dp * s.cp > 1 ? 3 : 0); ++s.zero) {
      for (s.shard = 0; s.shard < (s.zero == 3 ? s.dp * s.cp : 1); ++s.shard) {
        if (s.shard == 1) continue;
        for (const bool release : {true, false}) {
          if (s.zero < 3 && !release) continue;
          s.release_after_forward = release;
          with_recomputation(s);
        }
      }
    }
  };
  const auto with_schedule = [&](Strategy s) {
    if (s.pp == 1) return with_sharding(s);
    const int64_t micro_batches = w.global_batch / (s.dp * s.micro_batch);
    for (const auto kind : {PipelineKind::k1F1B, PipelineKind::kZbH1, PipelineKind::kZbH2}) {
      s.schedule = kind;
      with_sharding(s);
    }
    for (s.virtual_stages = 2; s.virtual_stages * s.pp <= w.model.layers + 2; ++s.virtual_stages) {
      const int64_t stages = s.virtual_stages * s.pp;
      const bool equal = w.model.layers % stages == 0 || (w.model.layers + 1) % stages == 0 ||
                         (w.model.layers + 2) % stages == 0;
      s.schedule = PipelineKind::kInterleaved;
      if (micro_batches % s.pp == 0 && equal) with_sharding(s);
      if (s.virtual_stages > 2 || stages > w.model.layers) continue;
      s.schedule = PipelineKind::kZbV;
      with_sharding(s);
      s.schedule = PipelineKind::kDualPipeV;
      if (micro_batches >= 2 * s.pp) with_sharding(s);
    }
  };
  for (int64_t tp = 1; tp <= n; ++tp) {
    for (int64_t pp = 1; pp <= std::min(n, w.model.layers); ++pp) {
      for (int64_t cp = 1; cp <= n; ++cp) {
        if (n % (tp * pp * cp) != 0 || (cp > 1 && w.seq_len % (2 * cp) != 0)) continue;
        Strategy s;
        s.tp = tp, s.pp = pp, s.cp = cp, s.dp = n / (tp * pp * cp);
        for (s.micro_batch = 1; s.micro_batch <= 32; ++s.micro_batch) {
          for (int order = 0; order < kNumRankOrders; ++order) {
            s.order = static_cast<RankOrder>(order);
            for (const bool sequence_parallel : {false, true}) {
              if (sequence_parallel && tp == 1) continue;
              s.sequence_parallel = sequence_parallel;
              for (const auto kind :
                   {ContextKind::kRing, ContextKind::kAllGather, ContextKind::kUlysses}) {
                if (kind != ContextKind::kRing && cp == 1) continue;
                s.context = kind;
                with_schedule(s);
              }
            }
          }
        }
      }
    }
  }
  return best;
}

TEST(SearchTest, TheBestIsThatOfAnExhaustiveLoop) {
  std::vector<Workload> all = {
      workload("llama-3.2-1b", "h100-8", 2048, 8), workload("qwen2-0.5b", "two-pcs", 2048, 6),
      workload("llama-2-7b", "pc-4x24-8", 1024, 8), workload("gpt2-xl", "v100-12", 1024, 12)};
  for (Workload w : testing::share_of(all, 2)) {
    if (w.model.layers > 12) w.model.layers = 12;
    const std::optional<Candidate> best = best_by_trying(w);
    ASSERT_TRUE(best.has_value());
    // To the last bit, ties included.
    const SearchOutcome found = search_strategies({.workload = w, .keep = 3});
    EXPECT_EQ(found.best.front().step_s, best->step_s) << w.cluster.name;
    EXPECT_FALSE(is_better(Objective::kTime, found.best.front(), *best)) << w.cluster.name;
    EXPECT_FALSE(is_better(Objective::kTime, *best, found.best.front())) << w.cluster.name;
  }
}

TEST(SearchTest, TheFrontHasNoPlanThatAnotherBeats) {
  SearchRequest request{.workload = small_workloads().front()};
  request.pareto = true;
  request.keep = 5;
  const SearchOutcome outcome = search_strategies(request);
  ASSERT_GT(outcome.front.size(), 1U);
  for (size_t i = 1; i < outcome.front.size(); ++i) {
    EXPECT_GT(outcome.front[i].step_s, outcome.front[i - 1].step_s);
    EXPECT_LT(outcome.front[i].peak_bytes, outcome.front[i - 1].peak_bytes);
  }
  EXPECT_EQ(outcome.front.front().step_s, outcome.best.front().step_s);
  SearchRequest least = request;
  least.objective = Objective::kMemory;
  EXPECT_EQ(outcome.front.back().peak_bytes, search_strategies(least).best.front().peak_bytes);
}

TEST(SearchTest, ThreadsDoNotChangeTheAnswerNorItsCounts) {
  SearchRequest request{.workload = workload("llama-3-70b", "a100-64", 4096, 128)};
  const SearchOutcome one = search_strategies(request);
  request.threads = 3;
  const SearchOutcome three = search_strategies(request);
  expect_same(one.best, three.best);
  EXPECT_EQ(one.rejected, three.rejected);
  EXPECT_EQ(one.priced, three.priced);
}

TEST(SearchTest, EveryConfigurationIsKeptOrCounted) {
  for (const Workload& w : testing::share_of(small_workloads(), 3)) {
    SearchRequest request{.workload = w};
    for (const bool exhaustive : {false, true}) {
      request.exhaustive = exhaustive;
      const SearchOutcome outcome = search_strategies(request);
      const int64_t rejected =
          std::accumulate(outcome.rejected.begin(), outcome.rejected.end(), int64_t{0});
      EXPECT_EQ(rejected + static_cast<int64_t>(outcome.best.size()), outcome.configurations)
          << w.cluster.name << (exhaustive ? ", exhaustive" : "");
    }
  }
}

TEST(SearchTest, BoundsAreBelowPricesAndSimulations) {
  for (const Workload& w : testing::share_of(small_workloads(), 2)) {
    StrategySimulator simulator(w);
    CostModel& model = simulator.model();
    const SearchSpace space = search_space(w, {});
    for (size_t g = 0; g < space.groups.size(); g += 7) {
      const Strategy& group = space.groups[g];
      const Variants variants = variants_of(w, group, {});
      const double least_s = model.work_bound_s(group);
      for (const ScheduleChoice& schedule : variants.schedules) {
        for (size_t h = 0; h < variants.shardings.size(); h += 3) {
          Strategy s = group;
          s.schedule = schedule.kind;
          s.virtual_stages = schedule.virtual_stages;
          s.zero = variants.shardings[h].zero;
          s.shard = variants.shardings[h].shard;
          s.recompute = h % 2 == 0 ? Recompute::kNone : Recompute::kFull;
          ASSERT_EQ(why_impossible(w, s), "");
          const QuickEstimate price = model.quick(s);
          ASSERT_LE(least_s, price.step_s);
          ASSERT_LE(model.states_bound_bytes(s), price.peak_bytes);
          if (h > 0) continue;
          ASSERT_LE(least_s, simulator.simulate(s).step_s());
        }
      }
    }
  }
}

TEST(SearchTest, SaysWhatIsNearestWhereNothingFits) {
  SearchRequest request{.workload = workload("llama-3-405b", "pc-4x24", 4096, 4)};
  const SearchOutcome outcome = search_strategies(request);
  EXPECT_TRUE(outcome.best.empty());
  ASSERT_TRUE(outcome.nearest.has_value());
  EXPECT_GT(outcome.nearest->peak_bytes, usable_bytes(request.workload.cluster));
  request.exhaustive = true;
  EXPECT_EQ(outcome.nearest->peak_bytes, search_strategies(request).nearest->peak_bytes);
}

TEST(SearchTest, StopsWithWhatItHas) {
  SearchRequest request{.workload = workload("llama-3-70b", "a100-64", 4096, 128)};
  int rounds = 0;
  const SearchOutcome outcome =
      search_strategies(request, [&](const SearchProgress&) { return ++rounds < 3; });
  EXPECT_TRUE(outcome.stopped);
  EXPECT_LT(outcome.groups_done, outcome.groups);
}

TEST(SearchTest, StopsWhereItsBudgetEnds) {
  SearchBudget budget{.prices_left = 50'000};
  SearchRequest request{.workload = workload("llama-3-70b", "a100-64", 4096, 128)};
  request.budget = &budget;
  const SearchOutcome outcome = search_strategies(request);
  EXPECT_TRUE(outcome.stopped && outcome.out_of_budget);
  EXPECT_LT(outcome.groups_done, outcome.groups);
  EXPECT_FALSE(outcome.best.empty());
  EXPECT_LE(budget.prices_left, 0);
  // Threads change nothing.
  SearchBudget again{.prices_left = 50'000};
  request.budget = &again;
  request.threads = 3;
  expect_same(search_strategies(request).best, outcome.best);
  EXPECT_EQ(again.prices_left, budget.prices_left);
  // A search that comes later finds nothing left.
  EXPECT_TRUE(search_strategies(request).best.empty());
}

TEST(SearchTest, RefusesMoreGroupsThanItCanList) {
  Workload w = workload("deepseek-v3", "h100-16384", 4096, 55440);
  w.cluster.devices = 14'414'400;
  EXPECT_THROW(search_strategies({.workload = w}), ConfigError);
}

TEST(SearchTest, RefusesWhatNoSplitDivides) {
  Workload w = workload("llama-3-8b", "h100-8", 4096, 8);
  w.cluster.devices = 67;
  w.global_batch = 3;
  w.seq_len = 4095;
  EXPECT_THROW(search_strategies({.workload = w}), ConfigError);
}

TEST(SearchTest, KeepsToFixedAxes) {
  SearchRequest request{.workload = workload("llama-3-8b", "h100-16", 4096, 16)};
  request.fixed.tp = 4;
  request.fixed.zero = 2;
  for (const Candidate& candidate : search_strategies(request).best) {
    EXPECT_EQ(candidate.strategy.tp, 4);
    EXPECT_EQ(candidate.strategy.zero, 2);
  }
}

TEST(SimulatedPlanTest, PartsAddUpToTheStep) {
  const Workload w = workload("llama-3-70b", "a100-64", 4096, 128);
  StrategySimulator simulator(w);
  for (const Candidate& candidate : search_strategies({.workload = w, .keep = 32}).best) {
    const SimulatedStrategy plan = simulator.simulate(candidate.strategy);
    const StepTime& time = plan.estimate.time;
    double sum = time.compute_s + time.bubble_s + time.optimizer_s;
    for (const double exposed : time.exposed_s) sum += exposed;
    EXPECT_NEAR(sum, time.step_s, 1e-9 * time.step_s);
    EXPECT_GE(time.bubble_s, 0);
    EXPECT_GT(plan.estimate.mfu, 0);
    EXPECT_LT(plan.estimate.mfu, 1);
  }
}

TEST(SimulatedPlanTest, LongStepsGoOnAsTheyAre) {
  // As many micro-batches more take as much time more, whether they are played or not.
  const auto step_s = [](int64_t global_batch) {
    Strategy s;
    s.pp = 4;
    s.dp = 2;
    StrategySimulator simulator(workload("llama-3-8b", "h100-8", 2048, global_batch));
    return simulator.simulate(s).step_s();
  };
  const double once = step_s(8192) - step_s(4096);
  EXPECT_NEAR(step_s(65536) - step_s(32768), 8 * once, 1e-6 * once);
}

TEST(SimulatedPlanTest, TakesTheStagesThatASimulationLikesBest) {
  const Workload w = workload("llama-3.2-1b", "h100-4", 2048, 16);  // a small model, a large head
  Strategy s;
  s.pp = 4;
  StrategySimulator simulator(w);
  const std::vector<SimulatedStrategy> plans =
      simulate_strategies(w, {}, {{s}}, usable_bytes(w.cluster), 1);
  EXPECT_LT(plans.front().step_s(), simulator.simulate(s).step_s());
  const std::vector<int64_t>& layers = plans.front().strategy.stage_layers;
  ASSERT_EQ(layers.size(), 4U);
  EXPECT_LT(layers.back(), layers[1]);
}

}  // namespace
}  // namespace tessera
