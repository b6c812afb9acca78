// Collectives that are hidden and collectives that are not: what is reported, and what may change.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/testing/test_folder.h"
#include "support/tiny.h"
#include "train/machine_defaults.h"
#include "train/report/planned_measured.h"
#include "train/session/session.h"

namespace tessera {
namespace {

using testing::parse_case;
using testing::TestFolder;
using Names = std::set<std::string>;

struct TrainedRun {
  TrainSummary summary;
  std::vector<nlohmann::json> metrics;
};

TrainedRun train(const std::string& line) {
  const TestFolder folder;
  TrainOptions options;
  options.spec = parse_case(line + " vocab=256 steps=4").spec;
  options.spec.data.synth_bytes = 5000;
  options.spec.logging.run_dir = folder.path("run");
  TrainedRun run;
  run.summary = run_training(options);
  std::ifstream file(folder.path("run/metrics.jsonl"));
  for (std::string text; std::getline(file, text);) {
    run.metrics.push_back(nlohmann::json::parse(text));
  }
  return run;
}

Names planned(const nlohmann::ordered_json& rank) {
  Names names;
  for (const auto& row : rank.at("traffic")) {
    names.insert(row.at("group").get<std::string>() + " " + row.at("op").get<std::string>());
  }
  return names;
}

const char* const kMeshes[] = {"dp=2 tp=2 zero=1 sequence_parallel=true",
                               "fsdp=2 zero=3 global_batch=8", "pp=2 dp=2 global_batch=8",
                               "cp=2 dp=2 cp_kind=allgather global_batch=4"};

TEST(OverlapTest, EveryGroupAndOperationOfThePlanIsTimed) {
  for (const std::string mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    const TrainedRun run = train(mesh);
    Names wanted;
    for (const auto& rank : run.summary.plan.at("ranks")) wanted.merge(planned(rank));
    Names timed;
    for (const auto& row : run.summary.measured.at("communication_time")) {
      timed.insert(row.at("group").get<std::string>() + " " + row.at("op").get<std::string>());
      const double busy = row.at("busy_ms").get<double>();
      const double exposed = row.at("exposed_ms").get<double>();
      EXPECT_GT(busy, 0) << row;
      EXPECT_GE(exposed, 0) << row;
      EXPECT_GE(row.at("exposed_ms_largest").get<double>(), exposed) << row;
    }
    EXPECT_EQ(timed, wanted);
    ASSERT_EQ(run.metrics.size(), 4U);
    const Names first = planned(run.summary.plan.at("ranks").at(0));
    for (const nlohmann::json& line : run.metrics) {
      Names names;
      for (const auto& [name, ms] : line.at("exposed_ms").items()) {
        names.insert(name);
        EXPECT_GE(ms.get<double>(), 0);
        EXPECT_LE(ms.get<double>(), line.at("step_ms").get<double>() + 1) << name;
      }
      EXPECT_EQ(names, first);
    }
  }
}

TEST(OverlapTest, OneRankCommunicatesNothing) {
  const TrainedRun run = train("dp=1");
  EXPECT_TRUE(run.summary.measured.at("communication_time").empty());
  for (const nlohmann::json& line : run.metrics) EXPECT_FALSE(line.contains("exposed_ms"));
}

TEST(OverlapTest, WithoutItTrafficAndLossStayAndKernelsWaitForEveryCollective) {
  for (const std::string mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    const TrainedRun hidden = train(mesh);
    const TrainedRun exposed = train(mesh + " overlap=false");
    EXPECT_EQ(hidden.summary.final_loss, exposed.summary.final_loss);
    EXPECT_TRUE(plan_equals_measured(exposed.summary.plan, exposed.summary.measured));
    for (size_t rank = 0; rank < hidden.summary.plan["ranks"].size(); ++rank) {
      EXPECT_EQ(hidden.summary.plan["ranks"][rank]["traffic"],
                exposed.summary.plan["ranks"][rank]["traffic"]);
    }
    const CompiledRun compiled = compile_here(parse_case(mesh + " overlap=false").spec);
    for (const Program& program : compiled.programs) {
      // By stream: signal of the newest collective that no kernel has waited for.
      std::map<StreamKind, int> newest;
      for (const Instruction& i : program.instructions) {
        if (has_collectives(i.stream)) newest[i.stream] = i.signal;
        if (i.stream != StreamKind::kCompute) continue;
        for (const auto& [stream, signal] : newest) {
          EXPECT_NE(std::find(i.waits.begin(), i.waits.end(), signal), i.waits.end()) << i.name;
        }
        newest.clear();
      }
    }
  }
}

}  // namespace
}  // namespace tessera
