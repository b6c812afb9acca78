#include "plan/run_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "plan/fit_changes.h"
#include "plan/run_plan_report.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

Engine engine() { return find_engine("tessera"); }

RunSpec spec_with(const std::vector<std::string>& changes, const Cluster& cluster) {
  RunSpec spec = parse_run_file("", "", changes, nullptr);
  use_cluster_defaults(spec, cluster);
  resolve(spec);
  return spec;
}

RunSpec llama_405b(const Cluster& cluster, const std::vector<std::string>& more = {}) {
  std::vector<std::string> changes = {
      "model.preset=llama-3-405b", "parallel.tp=8",    "parallel.pp=16",
      "parallel.dp=128",           "parallel.zero=1",  "parallel.sequence_parallel=true",
      "train.seq_len=8192",        "train.dtype=bf16", "train.global_batch=2048",
  };
  changes.insert(changes.end(), more.begin(), more.end());
  return spec_with(changes, cluster);
}

TEST(RunPlan, AddsUpToTheStep) {
  const Cluster cluster = find_cluster("h100-16384");
  ScalePlanner planner;
  const RunPlan plan = plan_run(llama_405b(cluster), cluster, engine(), planner);
  const StepTime& t = plan.estimate.time;
  double sum = t.compute_s + t.bubble_s + t.optimizer_s;
  for (const double exposed : t.exposed_s) sum += exposed;
  EXPECT_NEAR(sum, t.step_s, 1e-9 * t.step_s);
  EXPECT_GT(plan.estimate.mfu, 0.1);
  EXPECT_LT(plan.estimate.mfu, 1.0);
  EXPECT_EQ(plan.cluster.devices, 16384);
}

TEST(RunPlan, ChargesForWhatIsComputedAgain) {
  const Cluster cluster = find_cluster("h100-16384");
  ScalePlanner planner;
  double before = 0;
  for (const char* kind : {"none", "norms", "light", "full"}) {
    const RunPlan plan = plan_run(llama_405b(cluster, {fmt::format("parallel.recompute={}", kind)}),
                                  cluster, planner);
    EXPECT_GT(plan.estimate.time.step_s, before) << kind;
    before = plan.estimate.time.step_s;
  }
}

TEST(RunPlan, PricesTheDevicesThatTheMeshHas) {
  const Cluster cluster = find_cluster("h100-64");
  ScalePlanner planner;
  const RunSpec spec =
      spec_with({"model.preset=llama-3-8b", "parallel.dp=8", "train.dtype=bf16"}, cluster);
  EXPECT_EQ(plan_run(spec, cluster, engine(), planner).cluster.devices, 8);
  const RunSpec larger =
      spec_with({"model.preset=llama-3-8b", "parallel.dp=128", "train.dtype=bf16"}, cluster);
  EXPECT_THROW(plan_run(larger, cluster, engine(), planner), ConfigError);
}

TEST(RunPlan, SaysWhatItCannotTellApart) {
  const Cluster cluster = find_cluster("h100-8");
  RunSpec spec =
      spec_with({"model.preset=llama-3-8b", "parallel.pp=4", "parallel.dp=2",
                 "parallel.recompute=light:2+full", "train.dtype=bf16", "train.global_batch=16"},
                cluster);
  spec.parallel.schedule = "mine.csv";
  const PricedRun priced = priced_run(spec, cluster, engine());
  ASSERT_EQ(priced.guesses.size(), 2U);
  EXPECT_NE(priced.guesses[1].what.find("light:2+full"), std::string::npos);
  EXPECT_NE(priced.guesses[0].what.find("mine.csv"), std::string::npos);
}

TEST(RunPlan, PricesSchedulesThatTheCostModelHasNoKindFor) {
  const Cluster cluster = find_cluster("h100-8");
  ScalePlanner planner;
  const auto planned = [&](const std::string& schedule) {
    const std::vector<std::string> changes = {
        "model.preset=llama-3-8b",       "parallel.pp=8",    "train.global_batch=16",
        "parallel.schedule=" + schedule, "train.dtype=bf16", "optimizer.clip=0"};
    return plan_run(spec_with(changes, cluster), cluster, engine(), planner);
  };
  const RunPlan usual = planned("1f1b");
  const RunPlan naive = planned("naive");
  const StepTime& t = naive.estimate.time;
  EXPECT_NEAR(t.bubble_s, 16 * usual.estimate.time.bubble_s, 1e-12 * t.bubble_s);
  EXPECT_NEAR(t.step_s - t.bubble_s, usual.estimate.time.step_s - usual.estimate.time.bubble_s,
              1e-9 * t.step_s);
  EXPECT_NEAR(naive.estimate.tokens_per_s * t.step_s,
              usual.estimate.tokens_per_s * usual.estimate.time.step_s, 1);
  EXPECT_EQ(planned("pipedream").estimate.time.bubble_s, usual.estimate.time.bubble_s);
  for (const Guess& guess : naive.guesses)
    EXPECT_EQ(guess.what.find("schedule"), std::string::npos);
}

TEST(RunPlan, SaysWhetherItFitsAndWhatEachLinkCarries) {
  const Cluster cluster = find_cluster("h100-16384");
  ScalePlanner planner;
  const RunPlan plan = plan_run(llama_405b(cluster), cluster, engine(), planner);
  const std::string text = run_plan_text(plan, 1000000000);
  for (const char* part :
       {"does not fit: rank 1024", "by link: nvlink", "infiniband", "device-hours", "USD at"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  const RunPlan small =
      plan_run(llama_405b(cluster, {"parallel.recompute=full"}), cluster, engine(), planner);
  EXPECT_NE(run_plan_text(small, 0).find("fits: "), std::string::npos);
}

TEST(RunPlan, PricesModelsThatNoProgramComputes) {
  const Cluster cluster = find_cluster("h100-2048");
  const RunSpec spec = spec_with(
      {"model.preset=deepseek-v3", "parallel.pp=16", "parallel.fsdp=128", "parallel.ep=64",
       "parallel.zero=1", "train.dtype=bf16", "train.seq_len=4096", "train.global_batch=15360"},
      cluster);
  ScalePlanner planner;
  const RunPlan plan = plan_run(spec, cluster, engine(), planner);
  EXPECT_NE(plan.not_compiled.find("kv_rank"), std::string::npos);
  EXPECT_EQ(plan.ranks.classes.size(), 16U);
  EXPECT_GT(plan.ranks.heaviest().total_bytes(), int64_t{1} << 30);
  EXPECT_NE(run_plan_text(plan, 0).find("closed forms"), std::string::npos);
}

TEST(RunPlan, JsonHasNoNumberThatIsNone) {
  const Cluster cluster = find_cluster("h100-1");
  const RunSpec spec = spec_with({"model.preset=llama-3.2-1b", "train.dtype=bf16"}, cluster);
  ScalePlanner planner;
  const RunPlan plan = plan_run(spec, cluster, engine(), planner);
  const std::string json = run_plan_json(plan, 1'000'000'000).dump();
  EXPECT_EQ(json.find("null"), std::string::npos);  // how the library writes NaN
  const std::string text = run_plan_text(plan, 1'000'000'000);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
  EXPECT_NE(text.find("one rank: nothing is sent"), std::string::npos);
}

TEST(FitChanges, FitAndAreSortedByTime) {
  const Cluster cluster = find_cluster("h100-16384");
  ScalePlanner planner;
  const RunSpec spec = llama_405b(cluster);
  const RunPlan plan = plan_run(spec, cluster, engine(), planner);
  ASSERT_FALSE(plan.fits());
  const FitAdvice advice = advise_fit(spec, {}, cluster, engine(), planner);
  const std::vector<FitChange>& changes = advice.changes;
  ASSERT_EQ(changes.size(), 3U);
  for (size_t i = 0; i < changes.size(); ++i) {
    const RunPlan changed = plan_run(changes[i].spec, cluster, engine(), planner);
    EXPECT_TRUE(changed.fits());
    EXPECT_EQ(changed.ranks.heaviest().total_bytes(), changes[i].peak_bytes);
    EXPECT_EQ(changed.ranks.mesh.world(), 16384);
    if (i > 0) {
      EXPECT_GE(changes[i].step_s, changes[i - 1].step_s);
    }
  }
  const std::string text = misfit_text(plan, advice);
  EXPECT_NE(text.find("rank 1024 (pp1 dp0 tp0; 1,024 ranks need as much)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("the largest part is activations"), std::string::npos) << text;
}

TEST(FitChanges, SettingsGiveTheSameRun) {
  const Cluster cluster = find_cluster("h100-16384");
  ScalePlanner planner;
  for (const FitChange& change :
       advise_fit(llama_405b(cluster), {}, cluster, engine(), planner).changes) {
    const RunSpec again = llama_405b(cluster, change.settings);
    EXPECT_EQ(to_json(again).dump(), to_json(change.spec).dump());
  }
}

TEST(FitChanges, TryPairsWhereOneChangeIsNotEnough) {
  const Cluster cluster = find_cluster("h100-4");
  ScalePlanner planner;
  const RunSpec spec = spec_with(
      {"model.preset=llama-3.2-3b", "parallel.dp=4", "train.dtype=bf16", "cluster.memory_gib=24",
       "train.seq_len=8192", "train.micro_batch=8", "train.global_batch=32"},
      cluster);
  ASSERT_FALSE(plan_run(spec, cluster, engine(), planner).fits());
  const FitAdvice advice = advise_fit(spec, {}, cluster, engine(), planner);
  const std::vector<FitChange>& changes = advice.changes;
  ASSERT_FALSE(changes.empty());
  EXPECT_GT(changes.front().settings.size(), 1U);
}

TEST(FitChanges, SayThatNothingHelps) {
  const Cluster cluster = find_cluster("h100-1");
  ScalePlanner planner;
  const RunSpec spec = spec_with({"model.preset=llama-3-70b", "train.dtype=bf16"}, cluster);
  const RunPlan plan = plan_run(spec, cluster, engine(), planner);
  const FitAdvice advice = advise_fit(spec, {}, cluster, engine(), planner);
  const std::vector<FitChange>& changes = advice.changes;
  EXPECT_TRUE(changes.empty());
  ASSERT_TRUE(advice.nearest.has_value());
  EXPECT_GT(advice.nearest->peak_bytes, plan.limit_bytes);
  ASSERT_TRUE(advice.on_devices.has_value());
  EXPECT_EQ(advice.on_devices->spec.parallel.world(), advice.devices);
  EXPECT_LE(advice.on_devices->peak_bytes, plan.limit_bytes);
  const std::string text = misfit_text(plan, advice);
  EXPECT_NE(text.find("no change of up to three settings"), std::string::npos) << text;
  EXPECT_NE(text.find("16 devices would do"), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera
