#include "search/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/share.h"
#include "compile/scale/scale_plan.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "search/neighbours.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

struct Asked {
  SearchRequest request;
  ModelSpec model;
};

Asked ask(const std::string& model, const std::string& cluster, int64_t seq_len, int64_t batch) {
  Asked asked;
  asked.model = find_model(model).model;
  asked.model.preset = model;
  Workload& w = asked.request.workload;
  w.model = shape_of(asked.model, seq_len);
  w.cluster = find_cluster(cluster);
  w.engine = find_engine("megatron").numbers;
  w.seq_len = seq_len;
  w.global_batch = batch;
  return asked;
}

SearchReport report_for(const Asked& asked, int64_t top = 20) {
  return search_report(asked.request, asked.model, {top, true}, nullptr, nullptr);
}

TEST(ReportTest, ShowsPlansReasonsAndWhatWasLeftOut) {
  Asked asked = ask("llama-3-8b", "h100-16", 4096, 16);
  asked.request.pareto = true;
  const SearchReport report = report_for(asked, 5);
  ASSERT_EQ(report.plans.size(), 5U);
  const std::string text = to_text(report);
  for (const char* part :
       {"llama-3-8b on 16 x h100", "why, beside", "no plan is both faster and smaller",
        "twice the memory", "left out", "MFU"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf "), std::string::npos);
  for (size_t i = 1; i < report.plans.size(); ++i) {
    EXPECT_LE(report.plans[i - 1].plan.step_s(), report.plans[i].plan.step_s());
  }
  const nlohmann::ordered_json json = to_json(report);
  EXPECT_EQ(json.at("plans").size(), 5U);
  EXPECT_FALSE(json.at("pareto").empty());
}

TEST(ReportTest, NeverMovesWhatIsFixed) {
  Asked asked = ask("llama-3-70b", "a100-64", 4096, 256);
  asked.request.fixed.tp = 4;
  asked.request.fixed.pp = 4;
  asked.request.fixed.micro_batch = 1;
  const SearchReport report = report_for(asked, 5);
  ASSERT_FALSE(report.plans.empty());
  ASSERT_FALSE(report.sensitivities.empty());
  for (const char* other : {"tp 2", "tp 8", "pp 2", "pp 8", "micro-batch"}) {
    for (const Sensitivity& s : report.sensitivities) {
      EXPECT_EQ(s.moves.find(other), std::string::npos) << s.change << ": " << s.moves;
    }
    for (const RankedStrategy& ranked : report.plans) {
      EXPECT_EQ(ranked.why.find(other), std::string::npos) << ranked.why;
    }
  }
}

TEST(ReportTest, ComparesInOneUnit) {
  const std::vector<Neighbour> neighbours = {
      {.change = "tp 2", .more_s = 0.0004, .term = "bubble", .term_s = 0.02},
      {.change = "pp 2", .more_s = 0.5, .term = "kernels", .term_s = 1.5}};
  EXPECT_EQ(why_better(neighbours),
            "tp 2 takes 0.4 ms more (bubble +20 ms); pp 2 takes 0.5 s more (kernels +1.5 s)");
}

TEST(ReportTest, RunFilesAreWhatTrainReads) {
  const std::vector<Asked> all = {ask("llama-3-8b", "h100-16", 4096, 64),
                                  ask("mixtral-8x7b", "h100-16", 4096, 16),
                                  ask("llama-2-7b", "pc-4x24-8", 2048, 16)};
  int written = 0, looked_at = 0;
  for (const Asked& asked : testing::share_of(all, 3)) {
    for (const RankedStrategy& ranked : report_for(asked).plans) {
      ++looked_at;
      if (!ranked.file.lacks.empty()) {
        EXPECT_EQ(ranked.file.toml, "");
        continue;
      }
      RunSpec spec = parse_run_file(ranked.file.toml, "plan.toml", {}, nullptr);
      resolve(spec);
      EXPECT_EQ(spec.parallel.world(), asked.request.workload.cluster.devices);
      EXPECT_EQ(spec.parallel.tp, ranked.plan.strategy.tp);
      EXPECT_EQ(spec.parallel.zero, ranked.plan.strategy.zero);
      EXPECT_EQ(spec.train.global_batch, asked.request.workload.global_batch);
      spec.train.threads = 1;
      EXPECT_EQ(ScalePlanner().plan(spec).heaviest().total_bytes(), ranked.file.peak_bytes);
      EXPECT_LE(ranked.file.peak_bytes, usable_bytes(asked.request.workload.cluster));
      ++written;
    }
  }
  EXPECT_GT(looked_at, 10);
  if (testing::tries_all()) {  // not every machine has room for files
    EXPECT_GT(written, 10);
  }
}

// Our Programs keep more for zero-bubble schedules than the cost model's engine: the first plans do
// not fit, and the first that does is shown behind them.
TEST(ReportTest, ShowsTheBestPlanThatTrainCanRun) {
  const SearchReport report = report_for(ask("llama-3.2-3b", "two-pcs", 4096, 32), 2);
  ASSERT_EQ(report.plans.size(), 2U);
  for (const RankedStrategy& ranked : report.plans) {
    EXPECT_NE(ranked.file.lacks.find("memory: its Programs need"), std::string::npos);
    EXPECT_GT(ranked.file.peak_bytes, report.limit_bytes);
  }
  ASSERT_TRUE(report.runnable.has_value());
  EXPECT_GT(report.runnable->number, 2U);
  EXPECT_NE(report.runnable->file.toml, "");
  EXPECT_LE(report.runnable->file.peak_bytes, report.limit_bytes);
  EXPECT_NE(to_text(report).find("the best that tessera train can run"), std::string::npos);
  EXPECT_EQ(to_json(report).at("best_runnable").at("number"), report.runnable->number);
}

TEST(ReportTest, TellsWhatTheEngineLacks) {
  const Asked asked = ask("deepseek-v2-lite", "h100-16", 4096, 64);
  const SearchReport report = report_for(asked, 3);
  ASSERT_FALSE(report.plans.empty());
  for (const RankedStrategy& ranked : report.plans) EXPECT_NE(ranked.file.lacks, "");
}

TEST(ReportTest, SaysWhatWouldMakeItFit) {
  const SearchReport report = report_for(ask("llama-2-13b", "pc-4x24", 4096, 4));
  EXPECT_TRUE(report.plans.empty());
  ASSERT_GE(report.remedies.size(), 2U);
  const std::string text = to_text(report);
  EXPECT_NE(text.find("nothing fits: the nearest plan"), std::string::npos) << text;
  EXPECT_NE(text.find("devices with at least"), std::string::npos) << text;
}

TEST(ReportTest, LeastMemoryIsLessThanThatOfTheFastest) {
  Asked asked = ask("llama-3-8b", "h100-16", 4096, 16);
  const SearchReport fastest = report_for(asked, 3);
  asked.request.objective = Objective::kMemory;
  const SearchReport smallest = report_for(asked, 3);
  EXPECT_LT(smallest.plans.front().plan.peak_bytes(), fastest.plans.front().plan.peak_bytes());
  EXPECT_GE(smallest.plans.front().plan.step_s(), fastest.plans.front().plan.step_s());
  for (size_t i = 1; i < smallest.plans.size(); ++i) {
    EXPECT_LE(smallest.plans[i - 1].plan.peak_bytes(), smallest.plans[i].plan.peak_bytes());
  }
}

TEST(ReportTest, ShowsAFrontThatFitsOnAPage) {
  Asked asked = ask("llama-3-70b", "a100-64", 4096, 128);
  asked.request.pareto = true;
  const SearchReport report = report_for(asked, 2);
  ASSERT_GT(report.front.size(), 5U);
  EXPECT_LE(report.front.front().step_s(), report.plans.front().plan.step_s());
  for (size_t i = 1; i < report.front.size(); ++i) {
    EXPECT_GT(report.front[i].step_s(), report.front[i - 1].step_s());
    EXPECT_LT(report.front[i].peak_bytes(), report.front[i - 1].peak_bytes());
  }
  const std::string text = to_text(report);
  const size_t begin = text.find("time against memory"), end = text.find("what would change");
  ASSERT_LT(begin, end);
  const std::string part = text.substr(begin, end - begin);
  EXPECT_LE(std::count(part.begin(), part.end(), '\n'), 20 + 4);
  EXPECT_EQ(to_json(report).at("pareto").size(), report.front.size());
}

// A better machine is never slower, and what is promised of it a whole search on it keeps.
TEST(ReportTest, SensitivitiesAreWhatASearchOnThatMachineFinds) {
  Asked asked = ask("llama-3-8b", "h100-16", 4096, 64);
  const SearchReport report = report_for(asked, 1);
  const double now = report.plans.front().plan.step_s();
  ASSERT_GE(report.sensitivities.size(), 5U);
  for (const Sensitivity& sensitivity : report.sensitivities) {
    EXPECT_LE(sensitivity.change_pct, 0) << sensitivity.change;
    Asked there = asked;
    Cluster& cluster = there.request.workload.cluster;
    if (sensitivity.change.find("nvlink") != std::string::npos) {
      cluster.levels[0].bandwidth.value *= 2;
    } else if (sensitivity.change.find("infiniband") != std::string::npos) {
      cluster.levels[1].bandwidth.value *= 2;
    } else {
      continue;
    }
    const double best = report_for(there, 1).plans.front().plan.step_s();
    EXPECT_NEAR(100 * (best / now - 1), sensitivity.change_pct, 1) << sensitivity.change;
  }
}

TEST(ReportTest, SaysThatItWasStopped) {
  Asked asked = ask("llama-3-70b", "a100-64", 4096, 128);
  int calls = 0;
  const SearchReport some = search_report(asked.request, asked.model, {5, true}, nullptr,
                                          [&](const SearchProgress&) { return ++calls < 3; });
  ASSERT_FALSE(some.plans.empty());
  EXPECT_NE(to_text(some).find("stopped after"), std::string::npos);
  asked = ask("llama-3-405b", "pc-4x24", 4096, 4);
  const SearchReport none = search_report(asked.request, asked.model, {5, true}, nullptr,
                                          [](const SearchProgress&) { return false; });
  EXPECT_NE(to_text(none).find("stopped before a plan was found"), std::string::npos);
  EXPECT_EQ(to_text(none).find("nothing fits"), std::string::npos);
}

TEST(ReportTest, SaysThatItsBudgetEnded) {
  SearchBudget budget{.prices_left = 50'000};
  Asked asked = ask("llama-3-70b", "a100-64", 4096, 128);
  asked.request.budget = &budget;
  const std::string text = to_text(report_for(asked, 3));
  EXPECT_NE(text.find("one request takes 8,000,000 prices at most: fix one of"), std::string::npos)
      << text;
}

TEST(ReportTest, LowestCostMayTakeFewerDevices) {
  Asked asked = ask("llama-3-8b", "h100-64", 4096, 64);
  const SearchReport fastest = report_for(asked, 1);
  asked.request.objective = Objective::kCost;
  const SearchReport cheapest = report_for(asked, 1);
  const auto device_s = [](const SearchReport& r) {
    return r.plans.front().plan.step_s() * static_cast<double>(r.workload.cluster.devices);
  };
  ASSERT_EQ(cheapest.counts.size(), 4U);  // 64, 32, 16 and 8
  for (const DeviceCount& count : cheapest.counts) {
    EXPECT_LE(device_s(cheapest), count.device_seconds());
  }
  EXPECT_NE(to_text(cheapest).find("at 3 USD for a device and hour (a cloud price of 2024)"),
            std::string::npos);
  EXPECT_EQ(to_json(cheapest).at("costs").size(), 4U);
  EXPECT_TRUE(fastest.counts.empty());
  EXPECT_LT(cheapest.workload.cluster.devices, fastest.workload.cluster.devices);
  EXPECT_LT(device_s(cheapest), device_s(fastest));
}

}  // namespace
}  // namespace tessera
