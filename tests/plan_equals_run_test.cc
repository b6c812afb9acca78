// What the plan says is what the run does, on random configurations: memory, traffic and executed
// instructions of every rank, to the byte.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/testing/test_folder.h"
#include "plan/report/plan_json.h"
#include "support/tiny.h"
#include "train/machine_defaults.h"
#include "train/report/planned_measured.h"
#include "train/session/session.h"

namespace tessera {
namespace {

using testing::parse_case;
using testing::read_file;
using testing::TestFolder;

constexpr int kConfigurations = 30;
constexpr std::array<const char*, 4> kDTypes = {"f32", "f64", "bf16", "bf16 gradients=bf16"};

class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  // Written out, because the distributions of the standard library differ between libraries.
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  int64_t one_of(std::initializer_list<int64_t> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  }
  bool coin() { return below(2) == 0; }

 private:
  std::mt19937 engine_;
};

// A line for parse_case. Odd vocabularies and ffn widths need padding on most meshes.
std::string random_case(uint32_t seed) {
  Dice dice(seed);
  int64_t dp = 0, fsdp = 0, tp = 0;
  do {
    dp = dice.one_of({1, 2, 3, 4, 5});
    fsdp = dice.one_of({1, 1, 2, 3});
    tp = dice.one_of({1, 2, 4});
  } while (dp * fsdp * tp > 8);
  const int64_t micro_batch = dice.one_of({1, 2});
  const int64_t global_batch = micro_batch * dp * fsdp * dice.one_of({1, 2, 3});
  return fmt::format(
      "dp={} fsdp={} tp={} zero={} sequence_parallel={} prefetch={} bucket_mb={} kv_heads={} "
      "tied={} vocab={} ffn={} layers={} micro_batch={} global_batch={} loss_chunk={} dtype={}",
      dp, fsdp, tp, dice.below(4), dice.coin(), dice.below(3), dice.one_of({1, 25}),
      dice.one_of({1, 2, 4}), dice.coin(), dice.one_of({256, 257, 261}), dice.one_of({21, 24}),
      dice.one_of({1, 2, 3}), micro_batch, global_batch, dice.one_of({3, 5, 512}),
      kDTypes[static_cast<size_t>(dice.below(4))]);
}

RunSpec two_steps(const std::string& line, const TestFolder& folder) {
  RunSpec spec = parse_case(line).spec;
  spec.train.steps = 2;
  spec.data.synth_bytes = 5000;
  spec.logging.run_dir = folder.path("run");
  return spec;
}

TrainSummary train(const RunSpec& spec, const Injection& inject = {}) {
  TrainOptions options;
  options.spec = spec;
  options.inject = inject;
  return run_training(options);
}

nlohmann::ordered_json read_json(const std::string& path) {
  return nlohmann::ordered_json::parse(read_file(path));
}

class PlanEqualsRunTest : public ::testing::TestWithParam<int> {};

TEST_P(PlanEqualsRunTest, InEveryNumberOfEveryRank) {
  const std::string line = random_case(static_cast<uint32_t>(GetParam()));
  SCOPED_TRACE(line);
  const TestFolder folder;
  const RunSpec spec = two_steps(line, folder);
  train(spec);
  const nlohmann::ordered_json plan = read_json(folder.path("run/plan.json"));
  const nlohmann::ordered_json measured = read_json(folder.path("run/summary.json"));
  EXPECT_EQ(plan, full_plan_json(plan_of(compile_here(spec))));
  ASSERT_EQ(plan["ranks"].size(), static_cast<size_t>(spec.parallel.world()));
  ASSERT_EQ(measured["ranks"].size(), plan["ranks"].size());
  for (size_t rank = 0; rank < plan["ranks"].size(); ++rank) {
    for (const char* key : {"memory_bytes", "traffic", "instructions", "digest", "coords"}) {
      EXPECT_EQ(plan["ranks"][rank].at(key), measured["ranks"][rank].at(key))
          << key << " of rank " << rank;
    }
    EXPECT_GT(measured["ranks"][rank]["memory_bytes"]["total"], 0);
    EXPECT_EQ(measured["ranks"][rank]["traffic"].empty(), spec.parallel.world() == 1);
  }
  EXPECT_TRUE(plan_equals_measured(plan, measured));
}

INSTANTIATE_TEST_SUITE_P(Random, PlanEqualsRunTest, ::testing::Range(0, kConfigurations));

// The draw must reach what the test is about; otherwise change the seeds.
TEST(PlanEqualsRunTest, TheConfigurationsAreVaried) {
  int odd_dp = 0, sequence_parallel = 0, accumulating = 0, padded = 0;
  std::map<int64_t, int> zero;
  for (uint32_t seed = 0; seed < kConfigurations; ++seed) {
    const RunSpec spec = parse_case(random_case(seed)).spec;
    odd_dp += spec.parallel.dp % 2 == 1 && spec.parallel.dp > 1 ? 1 : 0;
    sequence_parallel += spec.parallel.sequence_parallel && spec.parallel.tp > 1 ? 1 : 0;
    accumulating += accumulation(spec) > 1 ? 1 : 0;
    padded += spec.model.vocab % spec.parallel.tp != 0 ? 1 : 0;
    if (spec.parallel.replicas() > 1) ++zero[spec.parallel.zero];
  }
  for (const int count : {odd_dp, sequence_parallel, accumulating, padded}) EXPECT_GE(count, 3);
  EXPECT_EQ(zero.size(), 4U);
}

// Adds one to a leaf of a rank's entry, or changes its text.
void tamper(nlohmann::ordered_json& report, const std::string& pointer) {
  nlohmann::ordered_json& leaf = report.at(nlohmann::ordered_json::json_pointer(pointer));
  if (leaf.is_number()) {
    leaf = leaf.get<int64_t>() + 1;
  } else {
    leaf = leaf.get<std::string>() + "0";
  }
}

TEST(PlanEqualsRunTest, NoticesASingleWrongNumber) {
  const TestFolder folder;
  const TrainSummary summary = train(two_steps("dp=2 tp=2 vocab=256", folder));
  ASSERT_TRUE(plan_equals_measured(summary.plan, summary.measured));
  for (const char* leaf : {"/ranks/3/memory_bytes/workspace", "/ranks/0/traffic/0/bytes_sent",
                           "/ranks/2/traffic/1/calls", "/ranks/1/instructions", "/ranks/3/digest",
                           "/ranks/0/memory_bytes/total", "/ranks/1/traffic/0/op"}) {
    nlohmann::ordered_json measured = summary.measured;
    tamper(measured, leaf);
    EXPECT_FALSE(plan_equals_measured(summary.plan, measured)) << leaf;
    EXPECT_NE(planned_measured_table(summary.plan, measured).find("DIFFERS"), std::string::npos);
  }
  nlohmann::ordered_json measured = summary.measured;
  measured["ranks"].erase(3);
  EXPECT_FALSE(plan_equals_measured(summary.plan, measured));
}

TEST(PlanEqualsRunTest, NoticesACollectiveThatDidNotHappen) {
  const TestFolder folder;
  const TrainSummary summary = train(two_steps("dp=2 tp=2 vocab=256", folder),
                                     parse_injection("drop-cast:tensor=layers.0.o.sum"));
  EXPECT_FALSE(plan_equals_measured(summary.plan, summary.measured));
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_NE(summary.plan["ranks"][rank]["traffic"], summary.measured["ranks"][rank]["traffic"]);
    EXPECT_NE(summary.plan["ranks"][rank]["digest"], summary.measured["ranks"][rank]["digest"]);
    EXPECT_EQ(summary.plan["ranks"][rank]["memory_bytes"],
              summary.measured["ranks"][rank]["memory_bytes"]);
  }
}

}  // namespace
}  // namespace tessera
