// What a search may choose: schedules, ways of recomputing, the settings of another system.
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "base/testing/share.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "plan/run_of_strategy.h"
#include "search/neighbours.h"
#include "search/search.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

SearchRequest request_for(const std::string& model, const std::string& cluster, int64_t seq_len,
                          int64_t global_batch) {
  SearchRequest request;
  Workload& w = request.workload;
  w.model = shape_of(find_model(model).model, seq_len);
  w.cluster = find_cluster(cluster);
  w.engine = find_engine("tessera").numbers;
  w.seq_len = seq_len;
  w.global_batch = global_batch;
  request.keep = 8;
  return request;
}

std::vector<SearchRequest> constrained() {
  std::vector<SearchRequest> all;
  for (const SystemRules& rules : system_rules()) {
    all.push_back(request_for("llama-3-8b", "h100-16", 4096, 16));
    all.back().fixed.system = &rules;
    all.push_back(request_for("mixtral-8x7b", "h100-32", 2048, 32));
    all.back().fixed.system = &rules;
  }
  all.push_back(request_for("llama-2-7b", "pc-4x24-8", 2048, 8));
  all.back().fixed.recompute = {RecomputeWay::kFull};
  all.push_back(request_for("llama-2-7b", "pc-4x24-8", 2048, 8));
  all.back().fixed.recompute = {RecomputeWay::kNone, RecomputeWay::kSome};
  all.push_back(request_for("llama-3-8b", "h100-16", 4096, 16));
  all.back().fixed.schedules = {PipelineKind::kGPipe, PipelineKind::kZbV};
  all.push_back(request_for("mixtral-8x7b", "h100-32", 2048, 32));
  all.back().fixed.sayable = true;
  return all;
}

TEST(ConstraintsTest, EveryPlanIsAllowed) {
  for (const SearchRequest& request : testing::share_of(constrained(), 2)) {
    const SearchOutcome outcome = search_strategies(request);
    ASSERT_FALSE(outcome.best.empty());
    for (const Candidate& candidate : outcome.best) {
      EXPECT_TRUE(is_allowed(request.fixed, request.workload, candidate.strategy));
      if (request.fixed.sayable || request.fixed.system != nullptr) {
        EXPECT_EQ(unsayable_choice(request.workload, candidate.strategy), "");
      }
    }
  }
}

TEST(ConstraintsTest, NoNeighbourLacksMemoryThatItHas) {
  for (const SearchRequest& request : testing::share_of(constrained(), 3)) {
    const SearchOutcome outcome = search_strategies(request);
    StrategySimulator simulator(request.workload);
    const int64_t limit = usable_bytes(request.workload.cluster);
    for (const Candidate& candidate : outcome.best) {
      const SimulatedStrategy plan = simulator.simulate(candidate.strategy);
      for (const Neighbour& neighbour : neighbours_of(simulator, request.fixed, plan, limit)) {
        EXPECT_TRUE(neighbour.fits || neighbour.missing_bytes > 0) << neighbour.change;
      }
    }
  }
}

TEST(ConstraintsTest, BoundsLeaveOutNothingAndEverythingIsCounted) {
  for (SearchRequest request : testing::share_of(constrained(), 3)) {
    const SearchOutcome pruned = search_strategies(request);
    request.exhaustive = true;
    const SearchOutcome all = search_strategies(request);
    ASSERT_EQ(pruned.best.size(), all.best.size());
    for (size_t i = 0; i < all.best.size(); ++i) {
      EXPECT_EQ(pruned.best[i].step_s, all.best[i].step_s) << i;
      EXPECT_EQ(pruned.best[i].peak_bytes, all.best[i].peak_bytes) << i;
    }
    for (const SearchOutcome* outcome : {&pruned, &all}) {
      const int64_t rejected =
          std::accumulate(outcome->rejected.begin(), outcome->rejected.end(), int64_t{0});
      EXPECT_EQ(rejected + std::ssize(outcome->best), outcome->configurations);
    }
  }
}

TEST(ConstraintsTest, WhatNothingAllowsIsSaid) {
  SearchRequest request = request_for("llama-3-8b", "h100-16", 4096, 16);
  request.fixed.system = &rules_of("torchtitan");
  request.fixed.zero = 2;
  try {
    static_cast<void>(search_strategies(request));
    FAIL();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("what --zero, --schedule, --recompute or --for allow"), text.npos) << text;
    EXPECT_NE(text.find("leave out --for torchtitan"), text.npos) << text;
  }
}

// Experts that are split over tp have no name in a run file, with ep or without.
TEST(ConstraintsTest, RunFilesCannotSplitAnExpert) {
  const SearchRequest request = request_for("mixtral-8x7b", "h100-32", 2048, 32);
  Strategy s;
  s.tp = 2;
  s.dp = 16;
  EXPECT_EQ(unsayable_choice(request.workload, s), "");
  s.expert_tp = 2;
  EXPECT_EQ(unsayable_choice(request.workload, s), "experts that are split over tp");
  s.expert_tp = 1;
  s.ep = 4;
  EXPECT_EQ(unsayable_choice(request.workload, s), "");
  s.tp = 8;
  s.dp = 4;
  EXPECT_NE(unsayable_choice(request.workload, s), "");
}

}  // namespace
}  // namespace tessera
