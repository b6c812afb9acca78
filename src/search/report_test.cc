#include "search/report.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cost/catalogue.h"
#include "spec/model_catalogue.h"
#include "spec/run_file.h"
#include "spec/validate.h"

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

TEST(ReportTest, RunFilesAreWhatTrainReads) {
  int written = 0;
  for (const Asked& asked :
       {ask("llama-3-8b", "h100-16", 4096, 64), ask("mixtral-8x7b", "h100-16", 4096, 16),
        ask("llama-2-7b", "pc-4x24-8", 2048, 16)}) {
    for (const RankedPlan& ranked : report_for(asked).plans) {
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
      ++written;
    }
  }
  EXPECT_GT(written, 10);
}

TEST(ReportTest, TellsWhatTheEngineLacks) {
  const Asked asked = ask("deepseek-v2-lite", "h100-16", 4096, 64);
  const SearchReport report = report_for(asked, 3);
  ASSERT_FALSE(report.plans.empty());
  for (const RankedPlan& ranked : report.plans) EXPECT_NE(ranked.file.lacks, "");
}

TEST(ReportTest, SaysWhatWouldMakeItFit) {
  const SearchReport report = report_for(ask("llama-2-13b", "pc-4x24", 4096, 4));
  EXPECT_TRUE(report.plans.empty());
  ASSERT_GE(report.remedies.size(), 2U);
  const std::string text = to_text(report);
  EXPECT_NE(text.find("nothing fits: the nearest plan"), std::string::npos) << text;
  EXPECT_NE(text.find("devices with at least"), std::string::npos) << text;
}

TEST(ReportTest, LowestCostMayTakeFewerDevices) {
  Asked asked = ask("llama-3-8b", "h100-64", 4096, 64);
  const SearchReport fastest = report_for(asked, 1);
  asked.request.objective = Objective::kCost;
  const SearchReport cheapest = report_for(asked, 1);
  const auto device_s = [](const SearchReport& r) {
    return r.plans.front().plan.step_s() * static_cast<double>(r.workload.cluster.devices);
  };
  EXPECT_LT(cheapest.workload.cluster.devices, fastest.workload.cluster.devices);
  EXPECT_LT(device_s(cheapest), device_s(fastest));
}

}  // namespace
}  // namespace tessera
