// The plan, which plays a schedule with closed forms of its stages, and the simulation of the
// Programs are two ways to the same number: they share the times of products and links, and the
// order of messages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/testing/share.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "plan/estimate_run.h"
#include "plan/memory_limit.h"
#include "plan/plan.h"
#include "sim/replay/cluster_times.h"
#include "sim/replay/distinct_programs.h"
#include "sim/replay/step_replay.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

struct Case {
  const char* model;
  const char* cluster;
  std::vector<std::string> settings;
};

const std::vector<Case> kCases = {
    {"llama-3-8b", "h100-16", {"parallel.tp=8", "parallel.dp=2", "train.global_batch=8"}},
    {"llama-3-8b",
     "h100-16",
     {"parallel.tp=8", "parallel.dp=2", "parallel.zero=1", "parallel.sequence_parallel=true",
      "train.global_batch=16"}},
    {"llama-3-8b", "h100-8", {"parallel.fsdp=8", "train.global_batch=8"}},
    {"llama-3-8b", "h100-64", {"parallel.fsdp=64", "train.global_batch=64"}},
    {"llama-3-8b", "h100-8", {"parallel.dp=8", "parallel.zero=1", "train.global_batch=16"}},
    {"llama-3-8b", "h100-32", {"parallel.dp=32", "train.global_batch=64"}},
    {"llama-3-8b", "h100-8", {"parallel.pp=8", "train.global_batch=32"}},
    {"llama-3-8b",
     "h100-16",
     {"parallel.pp=8", "parallel.dp=2", "parallel.zero=1", "train.global_batch=32"}},
    {"llama-3-8b",
     "h100-64",
     {"parallel.pp=4", "parallel.tp=8", "parallel.dp=2", "parallel.sequence_parallel=true",
      "parallel.zero=1", "train.global_batch=32"}},
    {"llama-3-8b",
     "h100-64",
     {"parallel.pp=4", "parallel.tp=8", "parallel.dp=2", "parallel.schedule=interleaved",
      "parallel.virtual_stages=2", "train.global_batch=16"}},
    {"llama-3-8b",
     "h100-8",
     {"parallel.pp=4", "parallel.dp=2", "parallel.schedule=gpipe", "train.global_batch=16"}},
    {"llama-3-8b", "h100-8", {"parallel.tp=8", "parallel.recompute=full", "train.global_batch=4"}},
    {"llama-3-8b", "h100-8", {"parallel.pp=8", "parallel.schedule=naive", "train.global_batch=8"}},
    {"llama-3-8b",
     "h100-16",
     {"parallel.dp=2", "parallel.fsdp=8", "parallel.recompute=full", "train.global_batch=32"}},
    {"llama-3-8b", "a100-16", {"parallel.tp=4", "parallel.dp=4", "train.global_batch=16"}},
    {"gpt-3-13b",
     "a100-64",
     {"parallel.pp=8", "parallel.tp=8", "parallel.sequence_parallel=true", "train.seq_len=2048",
      "train.micro_batch=4", "train.global_batch=64"}},
    // Links so slow that weight gradients hide little of what tp says over them.
    {"llama-2-70b",
     "pc-4x24-8",
     {"parallel.tp=8", "parallel.recompute=full", "train.micro_batch=2", "train.global_batch=32"}},
    {"llama-3-405b",
     "pc-4x24-8",
     {"parallel.tp=8", "parallel.recompute=full", "parallel.sequence_parallel=true",
      "train.global_batch=16"}},
    // Few rows for each expert, whose gradients are the most that is moved.
    {"mixtral-8x22b",
     "tpu-v4-64",
     {"parallel.tp=8", "parallel.pp=8", "parallel.schedule=zb-h1", "train.seq_len=2048",
      "train.global_batch=16"}},
    // Room for all choices of a token on every rank; one head of keys for two ranks.
    {"qwen3-30b-a3b",
     "tpu-v4-64",
     {"parallel.pp=2", "parallel.schedule=zb-v", "parallel.fsdp=32", "parallel.zero=3",
      "parallel.ep=8", "train.micro_batch=4", "train.seq_len=2048", "train.global_batch=256"}},
    {"qwen3-30b-a3b",
     "v100-64",
     {"parallel.tp=8", "parallel.pp=2", "parallel.cp=2", "parallel.dp=2", "parallel.zero=1",
      "parallel.sequence_parallel=true", "parallel.ep=8", "train.global_batch=8"}},
    // Sums of gradients beside the last stages of a rank, and gathering ahead of one's turn.
    {"llama-2-70b",
     "a100-256",
     {"parallel.tp=4", "parallel.pp=8", "parallel.dp=8", "parallel.zero=1",
      "parallel.sequence_parallel=true", "parallel.schedule=interleaved",
      "parallel.virtual_stages=2", "train.global_batch=64"}},
    {"mixtral-8x7b",
     "a100-256",
     {"parallel.tp=4", "parallel.pp=8", "parallel.fsdp=8", "parallel.zero=3", "parallel.ep=4",
      "parallel.recompute=full", "train.global_batch=64"}},
};

RunSpec spec_of(const Case& one) {
  std::vector<std::string> settings = one.settings;
  settings.insert(settings.begin(), {std::string("model.preset=") + one.model, "train.dtype=bf16",
                                     "train.seq_len=4096"});
  RunSpec spec = parse_run_file("", "", settings, nullptr);
  if (spec.model.experts == 0) spec.parallel.ep = 1;
  if (spec.model.max_positions > 0) {
    spec.train.seq_len = std::min(spec.train.seq_len, spec.model.max_positions);
  }
  use_cluster_defaults(spec, find_cluster(one.cluster));
  resolve(spec);
  return spec;
}

Cluster cluster_of(const Case& one, const RunSpec& spec) {
  return with_devices(find_cluster(one.cluster), spec.parallel.world());
}

const Engine& own_engine() {
  static const Engine engine = find_engine(std::string(kOwnEngine));
  return engine;
}

double planned_s(const Case& one, const Engine& engine = own_engine()) {
  const RunSpec spec = spec_of(one);
  return estimate_run(spec, cluster_of(one, spec), engine).estimate.time.step_s;
}

double simulated_s(const Case& one,
                   const Contention& contention = contention_of(own_engine().numbers)) {
  const RunSpec spec = spec_of(one);
  const RankPrograms programs = distinct_programs(build_step(spec, StepKind::kTraining));
  const ClusterTimes times(cluster_of(one, spec), own_engine().numbers, spec.train.dtype,
                           contention);
  return replay_step(programs, times).makespan;
}

// How much longer the plan is.
double error_of(const Case& one) {
  const double planned = planned_s(one), simulated = simulated_s(one);
  const double error = planned / simulated - 1;
  EXPECT_LT(std::abs(error), 0.1) << fmt::format("{} on {}, {}: plan {:.4f} s, simulated {:.4f} s",
                                                 one.model, one.cluster,
                                                 fmt::join(one.settings, " "), planned, simulated);
  return error;
}

TEST(PlanAgreementTest, PlanAndSimulationGiveNearlyTheSameStep) {
  double sum = 0;
  for (const Case& one : testing::share_of(kCases, 3)) sum += std::abs(error_of(one));
  if (testing::tries_all()) {
    EXPECT_LT(sum / static_cast<double>(kCases.size()), 0.06);
  }
}

// Another model, machine and strategy each time, on slow links and on fast ones.
class Draw {
 public:
  explicit Draw(uint32_t seed) : engine_(seed) {}

  Case next() {
    struct Machine {
      const char* name;
      int64_t devices;
    };
    const auto machine = pick<Machine>({{"pc-4x24-8", 8},
                                        {"two-pcs", 4},
                                        {"pc-4x24-16", 16},
                                        {"h100-16", 16},
                                        {"a100-32", 32},
                                        {"v100-64", 64},
                                        {"h100-256", 256}});
    Case one{pick<const char*>({"llama-2-7b", "llama-3-8b", "qwen3-8b", "llama-2-13b", "gpt-3-13b",
                                "mixtral-8x7b"}),
             machine.name,
             {}};
    int64_t left = machine.devices;
    const int64_t tp = likely(2) ? part(left, 8) : 1;
    const int64_t pp = likely(2) ? part(left, 8) : 1;
    const int64_t zero = pick<int64_t>({0, 1, 2, 3});
    add(one, "parallel.tp", tp);
    add(one, "parallel.pp", pp);
    add(one, zero == 3 ? "parallel.fsdp" : "parallel.dp", left);
    add(one, "parallel.zero", zero);
    const int64_t micro_batch = pick<int64_t>({1, 2});
    const int64_t micro_batches = std::max(pick<int64_t>({1, 4, 8}), pp > 1 ? 2 * pp : 1);
    add(one, "train.seq_len", pick<int64_t>({1024, 2048, 4096}));
    add(one, "train.micro_batch", micro_batch);
    add(one, "train.global_batch", left * micro_batch * micro_batches);
    if (tp > 1 && likely(2)) add(one, "parallel.sequence_parallel", "true");
    if (likely(3)) add(one, "parallel.recompute", "full");
    if (likely(2)) add(one, "parallel.ep", tp);
    if (pp > 1) {
      add(one, "parallel.schedule",
          pick<const char*>({"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v"}));
    }
    return one;
  }

 private:
  template <class T>
  T pick(const std::vector<T>& choices) {
    return choices[engine_() % choices.size()];
  }
  bool likely(uint32_t one_in) { return engine_() % one_in == 0; }
  int64_t part(int64_t& left, int64_t most) {
    std::vector<int64_t> choices;
    for (int64_t k = 2; k <= std::min(left, most); k *= 2) choices.push_back(k);
    if (choices.empty()) return 1;
    const int64_t taken = pick(choices);
    left /= taken;
    return taken;
  }
  template <class T>
  static void add(Case& one, const char* key, const T& value) {
    one.settings.push_back(fmt::format("{}={}", key, value));
  }

  std::mt19937 engine_;
};

// A third of them in each commit; of so few the mean is further from that of all.
TEST(PlanAgreementTest, ThirtyRandomRunsAgreeToATenth) {
  std::vector<uint32_t> seeds(30);
  std::iota(seeds.begin(), seeds.end(), 1);
  const std::vector<uint32_t> some = testing::share_of(seeds, 3);
  double sum = 0;
  for (const uint32_t seed : some) {
    SCOPED_TRACE(seed);
    sum += std::abs(error_of(Draw(seed).next()));
  }
  EXPECT_LT(sum / static_cast<double>(some.size()), testing::tries_all() ? 0.04 : 0.05);
}

// A control: messages that leave at will, each with its part of tp, are not what our Programs send.
TEST(PlanAgreementTest, AnotherEnginesMessagesDoNotAgree) {
  const Case one{"llama-2-7b",
                 "pc-4x24-8",
                 {"parallel.pp=8", "parallel.schedule=interleaved", "parallel.virtual_stages=2",
                  "train.global_batch=32"}};
  const double simulated = simulated_s(one);
  EXPECT_LT(std::abs(planned_s(one) / simulated - 1), 0.1);
  Engine at_will = own_engine();
  at_will.numbers.messages_in_order = 0;
  EXPECT_LT(planned_s(one, at_will), 0.9 * simulated);
}

// Engines whose host issues every kernel wait for it where kernels are short; our Programs do not.
TEST(PlanAgreementTest, AnotherEnginesStepIsLongerWhereKernelsAreShort) {
  Case one = kCases.back();
  one.settings.insert(one.settings.end(), {"train.micro_batch=1", "train.global_batch=16"});
  EXPECT_GT(planned_s(one, find_engine("megatron")), 1.3 * simulated_s(one));
}

// A layer that waits for its tensor-parallel collective behind a sum over replicas would hold up
// the stages before it: the sums of all stages would add up, as on one stream they do.
TEST(PlanAgreementTest, SumsOverReplicasDoNotAddUpAlongThePipeline) {
  const std::vector<std::string> pipeline = {"parallel.tp=8", "parallel.pp=8",
                                             "parallel.sequence_parallel=true"};
  Case alone{"llama-3-70b", "h100-64", pipeline};
  alone.settings.push_back("train.global_batch=16");
  Case replicated{"llama-3-70b", "h100-1024", pipeline};
  replicated.settings.insert(replicated.settings.end(),
                             {"parallel.dp=16", "parallel.zero=1", "train.global_batch=256"});
  const double without = simulated_s(alone, no_contention());
  const double with = simulated_s(replicated, no_contention());
  // The plan's own price of sums and gathers; on one stream it was paid by every stage.
  EXPECT_LT(with - without, 2 * (planned_s(replicated) - planned_s(alone)))
      << without << ", " << with;
}

}  // namespace
}  // namespace tessera
