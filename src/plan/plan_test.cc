#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/units.h"
#include "compile/testing/test_spec.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/hardware/cluster_file.h"
#include "plan/fit_changes.h"
#include "plan/memory_limit.h"
#include "plan/report/misfit_text.h"
#include "plan/report/plan_json.h"
#include "plan/report/plan_text.h"
#include "plan/strategy_of_run.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

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

Plan planned(const RunSpec& spec, const Cluster& cluster, int64_t tokens = 0) {
  return make_plan({.spec = spec, .cluster = cluster, .tokens = tokens});
}

FitAdvice advised(const RunSpec& spec, const Cluster& cluster) {
  ScalePlanner planner;
  return advise_fit(spec, {}, cluster, find_engine(std::string(kOwnEngine)), planner);
}

TEST(PlanTest, AddsUpToTheStep) {
  const Cluster cluster = find_cluster("h100-16384");
  const Plan plan = planned(llama_405b(cluster), cluster);
  const StepTime& t = plan.step->estimate.time;
  double sum = t.compute_s + t.bubble_s + t.optimizer_s;
  for (const double exposed : t.exposed_s) sum += exposed;
  EXPECT_NEAR(sum, t.step_s, 1e-9 * t.step_s);
  EXPECT_GT(plan.step->estimate.mfu, 0.1);
  EXPECT_LT(plan.step->estimate.mfu, 1.0);
  EXPECT_EQ(plan.step->cluster.devices, 16384);
}

TEST(PlanTest, ChargesForWhatIsComputedAgain) {
  const Cluster cluster = find_cluster("h100-16384");
  double before = 0;
  for (const char* kind : {"none", "norms", "light", "full"}) {
    const Plan plan =
        planned(llama_405b(cluster, {fmt::format("parallel.recompute={}", kind)}), cluster);
    EXPECT_GT(plan.step->estimate.time.step_s, before) << kind;
    before = plan.step->estimate.time.step_s;
  }
}

TEST(PlanTest, PricesTheDevicesThatTheMeshHas) {
  const Cluster cluster = find_cluster("h100-64");
  const RunSpec spec =
      spec_with({"model.preset=llama-3-8b", "parallel.dp=8", "train.dtype=bf16"}, cluster);
  EXPECT_EQ(planned(spec, cluster).step->cluster.devices, 8);
  const RunSpec larger =
      spec_with({"model.preset=llama-3-8b", "parallel.dp=128", "train.dtype=bf16"}, cluster);
  EXPECT_THROW(planned(larger, cluster), ConfigError);
}

TEST(PlanTest, SaysWhatItCannotTellApart) {
  const Cluster cluster = find_cluster("h100-8");
  RunSpec spec =
      spec_with({"model.preset=llama-3-8b", "parallel.pp=4", "parallel.dp=2",
                 "parallel.recompute=light:2+full", "train.dtype=bf16", "train.global_batch=16"},
                cluster);
  spec.parallel.schedule = PipelineChoice::parse("mine.csv");
  const RunStrategy priced = strategy_of_run(spec, cluster, find_engine(std::string(kOwnEngine)));
  ASSERT_EQ(priced.guesses.size(), 2U);
  EXPECT_NE(priced.guesses[1].what.find("light:2+full"), std::string::npos);
  EXPECT_NE(priced.guesses[0].what.find("mine.csv"), std::string::npos);
}

// A machine as tessera calibrate describes it: named after the processor, extending nothing.
Cluster calibrated(TrainDevice measured_on) {
  const bool cpu = measured_on == TrainDevice::kCpu;
  Cluster cluster = find_cluster(cpu ? "cpu" : "h100-1");
  cluster.device.name = cpu ? "AMD EPYC 7B13 64-Core Processor" : "NVIDIA H100 80GB HBM3";
  cluster.device.extends = "";
  cluster.measured.source = "a test";
  cluster.measured.device = measured_on;
  cluster.measured.kernels = {{.op = "any products", .fit = {.points = 1}}};
  return cluster;
}

TEST(PlanTest, TakesAMachineThatWasMeasuredForWhatItIs) {
  for (const TrainDevice device : {TrainDevice::kCpu, TrainDevice::kCuda}) {
    const std::string now = to_toml(calibrated(device));
    std::string before = now;  // files were written without the kind of their device
    const size_t at = before.find("kind = ");
    ASSERT_NE(at, std::string::npos);
    before.erase(at, before.find('\n', at) + 1 - at);
    for (const std::string& text : {now, before}) {
      const Cluster cluster =
          find_cluster("machine.toml", [&](const std::string&) { return text; });
      const RunSpec spec = spec_with(
          {"model.preset=llama-2-7b", fmt::format("train.device={}", name_of(device))}, cluster);
      EXPECT_EQ(spec.train.device, device) << text;
    }
  }
}

TEST(PlanTest, PricesSchedulesThatTheCostModelHasNoKindFor) {
  const Cluster cluster = find_cluster("h100-8");
  const auto with_schedule = [&](const std::string& schedule) {
    const std::vector<std::string> changes = {
        "model.preset=llama-3-8b",       "parallel.pp=8",    "train.global_batch=16",
        "parallel.schedule=" + schedule, "train.dtype=bf16", "optimizer.clip=0"};
    return planned(spec_with(changes, cluster), cluster);
  };
  const Plan usual = with_schedule("1f1b");
  const Plan naive = with_schedule("naive");
  const StepTime& t = naive.step->estimate.time;
  // Once for each of its 16 micro-batches; with 1f1b stages that differ also wait in between.
  EXPECT_GT(t.bubble_s, 8 * usual.step->estimate.time.bubble_s);
  EXPECT_LT(t.bubble_s, 16.5 * usual.step->estimate.time.bubble_s);
  EXPECT_NEAR(t.step_s - t.bubble_s,
              usual.step->estimate.time.step_s - usual.step->estimate.time.bubble_s,
              1e-9 * t.step_s);
  EXPECT_NEAR(naive.step->estimate.tokens_per_s * t.step_s,
              usual.step->estimate.tokens_per_s * usual.step->estimate.time.step_s, 1);
  EXPECT_EQ(with_schedule("pipedream").step->estimate.time.bubble_s,
            usual.step->estimate.time.bubble_s);
  for (const Guess& guess : naive.guesses)
    EXPECT_EQ(guess.what.find("schedule"), std::string::npos);
}

TEST(PlanTest, SaysWhetherItFitsAndWhatEachLinkCarries) {
  const Cluster cluster = find_cluster("h100-16384");
  const Plan plan = planned(llama_405b(cluster), cluster, 1000000000);
  const std::string text = plan_text(plan);
  for (const char* part :
       {"does not fit: rank 1024", "by link: nvlink", "infiniband", "device-hours", "USD at"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  const Plan small = planned(llama_405b(cluster, {"parallel.recompute=full"}), cluster);
  EXPECT_NE(plan_text(small).find("fits: "), std::string::npos);
}

// 64 micro-batches of four chunks go from one PC to the other, and the last rank sends back to the
// first: rank 0 has neighbours on both links.
TEST(PlanTest, MessagesAreCountedOnTheLinksThatTheyCross) {
  const Cluster cluster = find_cluster("pc-4x24-8");
  const Plan plan = planned(
      spec_with({"model.preset=llama-2-7b", "parallel.pp=8", "parallel.schedule=interleaved",
                 "parallel.virtual_stages=4", "parallel.recompute=full", "train.dtype=bf16",
                 "train.seq_len=4096", "train.global_batch=64"},
                cluster),
      cluster);
  ASSERT_EQ(plan.heaviest().first_rank, 0);
  const std::string text = plan_text(plan);
  EXPECT_NE(text.find("by link: pcie 8.0 GiB, ethernet 6.0 GiB"), std::string::npos) << text;
  const AxisTraffic& messages =
      plan.step->estimate.traffic[static_cast<size_t>(CommAxis::kPipeline)];
  const double bytes = 64.0 * 4 * 4096 * 4096 * 2;  // in one direction
  EXPECT_NEAR(messages.busy_s, bytes / (0.3125e9 * 0.9), 0.01);
  EXPECT_LT(messages.busy_s, plan.step->estimate.time.step_s);
}

TEST(PlanTest, PricesModelsThatNoProgramComputes) {
  const Cluster cluster = find_cluster("h100-2048");
  const RunSpec spec = spec_with(
      {"model.preset=deepseek-v3", "parallel.pp=16", "parallel.fsdp=128", "parallel.ep=64",
       "parallel.zero=1", "train.dtype=bf16", "train.seq_len=4096", "train.global_batch=15360"},
      cluster);
  const Plan plan = planned(spec, cluster);
  EXPECT_EQ(plan.source, PlanSource::kClosedForms);
  EXPECT_NE(plan.guesses.front().taken.find("kv_rank"), std::string::npos);
  EXPECT_EQ(plan.classes.size(), 16U);
  EXPECT_GT(plan.peak_bytes(), int64_t{1} << 30);
  EXPECT_NE(plan_text(plan).find("closed forms"), std::string::npos);
}

TEST(PlanTest, JsonHasNoNumberThatIsNone) {
  const Cluster cluster = find_cluster("h100-1");
  const RunSpec spec = spec_with({"model.preset=llama-3.2-1b", "train.dtype=bf16"}, cluster);
  const Plan plan = planned(spec, cluster, 1'000'000'000);
  const std::string json = plan_json(plan).dump();
  EXPECT_EQ(json.find("null"), std::string::npos);  // how the library writes NaN
  const std::string text = plan_text(plan);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
  EXPECT_NE(text.find("one rank: nothing is sent"), std::string::npos);
}

// Ranks up to 64, one by one.
RunSpec small_run(const std::string& mesh, const Cluster& cluster) {
  RunSpec spec = testing::small_spec(mesh);
  spec.model.layers = 4;
  spec.train.global_batch = 16;
  spec.cluster.memory_gib = 1;
  use_cluster_defaults(spec, cluster);
  return testing::resolved(std::move(spec));
}

TEST(PlanTest, IsTheSameFromProgramsAndFromTemplates) {
  for (const char* mesh : {"dp=2,tp=2,zero=1", "pp=2,dp=2", "pp=2,schedule=zb-v,dp=2", "fsdp=4",
                           "cp=2,tp=2,sequence_parallel=true", "dp=1"}) {
    SCOPED_TRACE(mesh);
    const Cluster cluster = find_cluster("h100-4");
    PlanRequest request{.spec = small_run(mesh, cluster), .cluster = cluster};
    const Plan templates = make_plan(request);
    ASSERT_EQ(templates.source, PlanSource::kTemplates);
    request.cluster.reset();
    const Plan programs = make_plan(request);
    ASSERT_EQ(programs.source, PlanSource::kPrograms);
    nlohmann::ordered_json from_programs = plan_json(programs);
    EXPECT_EQ(from_programs.at("classes"), plan_json(templates).at("classes"));
    for (auto& rank : from_programs.at("ranks")) {
      EXPECT_FALSE(rank.at("digest").empty());
      rank.erase("digest");
      rank.erase("instructions");
    }
    EXPECT_EQ(from_programs.at("ranks"), plan_json(templates).at("ranks"));
    EXPECT_EQ(programs.num_parameters, templates.num_parameters);
    EXPECT_FALSE(from_programs.contains("time"));
  }
}

TEST(PlanTest, ListsDigestsBesideTimesWhereItIsAskedTo) {
  const Cluster cluster = find_cluster("h100-4");
  PlanRequest request{.spec = small_run("pp=2,dp=2", cluster), .cluster = cluster};
  request.digests = true;
  const Plan priced = make_plan(request);
  request.cluster.reset();
  EXPECT_EQ(plan_json(priced).at("ranks"), plan_json(make_plan(request)).at("ranks"));
  EXPECT_GT(priced.step.value().estimate.time.step_s, 0);
}

TEST(PlanTest, SplitsKernelsIntoForwardAndBackward) {
  const Cluster cluster = find_cluster("h100-16384");
  const StepTime none = planned(llama_405b(cluster), cluster).step->estimate.time;
  const StepTime full =
      planned(llama_405b(cluster, {"parallel.recompute=full"}), cluster).step->estimate.time;
  EXPECT_GT(none.forward_s, 0);
  EXPECT_NEAR(none.backward_s() / none.forward_s, 2, 0.5);
  // What is computed again is backward's.
  EXPECT_NEAR(full.forward_s, none.forward_s, 1e-9 * none.forward_s);
  EXPECT_GT(full.backward_s(), none.backward_s() + 0.5 * none.forward_s);
}

TEST(PlanTest, AdvisesWithoutAClusterToo) {
  const Cluster cluster = find_cluster("cpu-2");
  PlanRequest request{.spec = small_run("dp=2", cluster), .advise = true};
  const int64_t needed = make_plan(request).peak_bytes();
  EXPECT_FALSE(make_plan(request).advice.has_value());
  request.spec.cluster.memory_gib = 0.9 * static_cast<double>(needed) / kGibibyte;
  const Plan plan = make_plan(request);
  ASSERT_FALSE(plan.fits());
  ASSERT_FALSE(plan.advice.value().changes.empty());
  EXPECT_EQ(plan.advice->assumed_cluster, "cpu-2");
  for (const FitChange& change : plan.advice->changes) {
    EXPECT_LE(make_plan({.spec = change.spec}).peak_bytes(), plan.limit_bytes);
  }
  EXPECT_NE(misfit_text(plan).find("steps as on cpu-2"), std::string::npos) << misfit_text(plan);
  EXPECT_EQ(plan_json(plan).at("changes").size(), plan.advice->changes.size());
}

TEST(FitChanges, FitAndAreSortedByTime) {
  const Cluster cluster = find_cluster("h100-16384");
  const RunSpec spec = llama_405b(cluster);
  const Plan plan = make_plan({.spec = spec, .cluster = cluster, .advise = true});
  ASSERT_FALSE(plan.fits());
  const std::vector<FitChange>& changes = plan.advice.value().changes;
  ASSERT_EQ(changes.size(), 3U);
  for (size_t i = 0; i < changes.size(); ++i) {
    const Plan changed = planned(changes[i].spec, cluster);
    EXPECT_TRUE(changed.fits());
    EXPECT_EQ(changed.peak_bytes(), changes[i].peak_bytes);
    EXPECT_EQ(changed.mesh.world(), 16384);
    if (i > 0) {
      EXPECT_GE(changes[i].step_s, changes[i - 1].step_s);
    }
  }
  const std::string text = misfit_text(plan);
  EXPECT_NE(text.find("rank 1024 (pp1 dp0 tp0; 1,024 ranks need as much)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("the largest part is activations"), std::string::npos) << text;
}

TEST(FitChanges, SettingsGiveTheSameRun) {
  const Cluster cluster = find_cluster("h100-16384");
  for (const FitChange& change : advised(llama_405b(cluster), cluster).changes) {
    const RunSpec again = llama_405b(cluster, change.settings);
    EXPECT_EQ(to_json(again).dump(), to_json(change.spec).dump());
  }
}

TEST(FitChanges, TryPairsWhereOneChangeIsNotEnough) {
  const Cluster cluster = find_cluster("h100-4");
  const RunSpec spec = spec_with(
      {"model.preset=llama-3.2-3b", "parallel.dp=4", "train.dtype=bf16", "cluster.memory_gib=24",
       "train.seq_len=8192", "train.micro_batch=8", "train.global_batch=32"},
      cluster);
  ASSERT_FALSE(planned(spec, cluster).fits());
  const FitAdvice advice = advised(spec, cluster);
  const std::vector<FitChange>& changes = advice.changes;
  ASSERT_FALSE(changes.empty());
  EXPECT_GT(changes.front().settings.size(), 1U);
}

TEST(FitChanges, SayThatNothingHelps) {
  const Cluster cluster = find_cluster("h100-1");
  const RunSpec spec = spec_with({"model.preset=llama-3-70b", "train.dtype=bf16"}, cluster);
  const Plan plan = make_plan({.spec = spec, .cluster = cluster, .advise = true});
  const FitAdvice& advice = plan.advice.value();
  EXPECT_TRUE(advice.changes.empty());
  ASSERT_TRUE(advice.nearest.has_value());
  EXPECT_GT(advice.nearest->peak_bytes, plan.limit_bytes);
  ASSERT_TRUE(advice.on_devices.has_value());
  EXPECT_EQ(advice.on_devices->spec.parallel.world(), advice.devices);
  EXPECT_LE(advice.on_devices->peak_bytes, plan.limit_bytes);
  const std::string text = misfit_text(plan);
  EXPECT_NE(text.find("no change of up to three settings"), std::string::npos) << text;
  EXPECT_NE(text.find("16 devices would do"), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera
