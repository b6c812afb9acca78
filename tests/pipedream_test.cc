// Asynchronous pipelines against the rule that defines them (docs/pipeline-async.md): one rank
// computes the gradient of one micro-batch after the other, every stage's weights at the version
// that the rule says, and AdamW is a few lines of this file. No stage, schedule or version of the
// compiler is used for the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "spec/run_file/asynchronous.h"
#include "support/record.h"
#include "support/tiny.h"
#include "train/machine_defaults.h"
#include "train/report/planned_measured.h"
#include "train/session/session.h"
#include "train/session/step_params.h"

namespace tessera {
namespace {

using testing::parse_case;
using testing::random_samples;
using testing::TinyCase;

constexpr int64_t kSteps = 3;

// ---- the rule ----

struct Rule {
  int64_t stages = 1;
  int64_t group = 1;  // micro-batches of an update
  bool one_behind = false;

  // The version that micro-batch m of a step reads on a stage, in forward and in backward; at most
  // what the groups before its own have made.
  [[nodiscard]] int64_t version(int64_t stage, int64_t m) const {
    const int64_t wanted = one_behind ? m / group - 1 : m - (stages - 1 - stage);
    return std::clamp<int64_t>(wanted, 0, m / group);
  }
};

Rule rule_of(const RunSpec& spec) {
  return {spec.parallel.pp, micro_batches_per_update(spec),
          spec.parallel.schedule == PipelineKind::kPipedream2bw};
}

// ---- the reference ----

struct State {
  LogicalTensor tensor;
  int64_t stage = 0;
  std::vector<std::vector<double>> versions;  // of this step
  std::vector<double> m, v;                   // of Adam
  std::vector<double> gradient;               // of the update at hand
};

// Tensors of a block are named by its layer; the embedding is on the first stage, the rest on the
// last.
int64_t stage_of(const std::string& name, const RunSpec& spec) {
  if (spec.parallel.pp == 1 || name.find("embed") != std::string::npos) return 0;
  const std::string before = "layers.";
  const size_t at = name.find(before);
  if (at == std::string::npos) return spec.parallel.pp - 1;
  int64_t layer = std::stoll(name.substr(at + before.size()));
  if (spec.parallel.stage_layers.empty()) {
    EXPECT_EQ(spec.model.layers, spec.parallel.pp) << "give stage_layers";
    return layer;
  }
  int64_t stage = 0;
  for (const int64_t count : spec.parallel.stage_layers) {
    if (layer < count) break;
    layer -= count;
    ++stage;
  }
  return stage;
}

void adamw(State& state, double tokens, int64_t update, const StepParams& p) {
  std::vector<double> weights = state.versions.back();
  const double decay = state.tensor.shape.size() > 1 ? p.weight_decay : 0;
  const double correction1 = 1 - std::pow(p.beta1, static_cast<double>(update));
  const double correction2 = 1 - std::pow(p.beta2, static_cast<double>(update));
  for (size_t i = 0; i < weights.size(); ++i) {
    const double g = state.gradient[i] / std::max(1.0, tokens);
    state.m[i] = p.beta1 * state.m[i] + (1 - p.beta1) * g;
    state.v[i] = p.beta2 * state.v[i] + (1 - p.beta2) * g * g;
    weights[i] -= p.lr * decay * weights[i];
    weights[i] -= p.lr * (state.m[i] / correction1) / (std::sqrt(state.v[i] / correction2) + p.eps);
  }
  state.versions.push_back(std::move(weights));
}

class Reference {
 public:
  Reference(const RunSpec& spec, SampleSource samples, Rule rule)
      : spec_(spec),
        one_(one_micro_batch(spec)),
        samples_(std::move(samples)),
        rule_(rule),
        micro_batches_(accumulation(spec)),
        world_(build_step(one_, StepKind::kTraining)) {
    load(initial_weights(spec.model, spec.train.seed));
    for (LogicalValues& weight : gather_state(world_, StateKind::kWeights)) {
      State& state = states_[weight.tensor.name];
      state.tensor = weight.tensor;
      state.stage = stage_of(weight.tensor.name, spec);
      state.m.assign(weight.values.size(), 0);
      state.v = state.gradient = state.m;
      state.versions = {std::move(weight.values)};
    }
  }

  std::vector<StepRecord> run() {
    std::vector<StepRecord> records;
    for (int64_t step = 1; step <= kSteps; ++step) records.push_back(run_step(step));
    return records;
  }

 private:
  // What all replicas together do with one micro-batch.
  static RunSpec one_micro_batch(RunSpec spec) {
    spec.train.micro_batch *= spec.parallel.replicas();
    spec.train.global_batch = spec.train.micro_batch;
    spec.parallel = ParallelSpec();
    resolve(spec);
    return spec;
  }

  void load(const TensorSource& source) {
    world_.run([&](int, Executor& executor) { load_weights(executor, world_.step(), source); });
  }

  // Adds the gradient of a micro-batch, a sum over its tokens.
  StepOutcome add_gradient(int64_t step, int64_t m) {
    load([&](const LogicalTensor& tensor, int64_t first, std::span<double> out) {
      const State& state = states_.at(tensor.name);
      const auto version = static_cast<size_t>(rule_.version(state.stage, m));
      const std::vector<double>& values = state.versions.at(version);
      std::copy_n(values.begin() + first, out.size(), out.begin());
    });
    StepOutcome outcome;
    world_.run([&](int, Executor& executor) {
      fill_inputs(executor, one_, (step - 1) * micro_batches_ + m + 1, samples_);
      StepParams params = step_params(one_, 1);
      params.lr = 0;
      outcome = executor.run(params);
    });
    for (const LogicalValues& gradient : gather_state(world_, StateKind::kGradients)) {
      std::vector<double>& sum = states_.at(gradient.tensor.name).gradient;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient.values[i];
    }
    return outcome;
  }

  StepRecord run_step(int64_t step) {
    const int64_t updates = micro_batches_ / rule_.group;
    for (auto& [name, state] : states_) state.versions = {state.versions.back()};
    double loss = 0;
    double all_tokens = 0;
    double tokens = 0;
    for (int64_t update = 1; update <= updates; ++update) {
      tokens = 0;
      for (auto& [name, state] : states_)
        std::fill(state.gradient.begin(), state.gradient.end(), 0);
      for (int64_t m = (update - 1) * rule_.group; m < update * rule_.group; ++m) {
        const StepOutcome outcome = add_gradient(step, m);
        tokens += outcome.tokens;
        loss += outcome.loss * outcome.tokens;
      }
      all_tokens += tokens;
      for (auto& [name, state] : states_) {
        adamw(state, tokens, (step - 1) * updates + update, step_params(spec_, step));
      }
    }
    return record_of(loss / all_tokens, tokens);
  }

  StepRecord record_of(double loss, double tokens) const {
    StepRecord record;
    record.loss = loss;
    double squares = 0;
    for (const auto& [name, state] : states_) {
      std::vector<double> gradient = state.gradient;
      for (double& g : gradient) g /= std::max(1.0, tokens);
      squares += norm(gradient) * norm(gradient);
      record.gradients.push_back({state.tensor, std::move(gradient)});
      record.weights.push_back({state.tensor, state.versions.back()});
    }
    record.grad_norm = std::sqrt(squares);
    const auto by_order = [](const LogicalValues& a, const LogicalValues& b) {
      return a.tensor.order < b.tensor.order;
    };
    std::sort(record.gradients.begin(), record.gradients.end(), by_order);
    std::sort(record.weights.begin(), record.weights.end(), by_order);
    return record;
  }

  RunSpec spec_, one_;
  SampleSource samples_;
  Rule rule_;
  int64_t micro_batches_;
  World world_;
  std::map<std::string, State> states_;
};

double worst_weight(const std::vector<StepRecord>& mine, const std::vector<StepRecord>& oracle) {
  double worst = 0;
  for (size_t s = 0; s < mine.size(); ++s) {
    for (const Difference& d : differences(mine[s].weights, oracle[s].weights)) {
      worst = std::max(worst, d.relative);
    }
  }
  return worst;
}

// ---- every asynchronous run ----

class PipeDreamTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PipeDreamTest, MatchesItsRuleAndItsPlan) {
  const TinyCase c = parse_case(GetParam() + " clip=0");
  const SampleSource samples = random_samples(c.spec, c.mask);
  const std::vector<StepRecord> oracle = Reference(c.spec, samples, rule_of(c.spec)).run();
  const MeasuredRun run = record_and_measure(testing::short_run(c.spec, samples));
  testing::expect_equal(run.steps, oracle, 1e-12);
  for (size_t s = 0; s < oracle.size(); ++s) {
    EXPECT_NEAR(run.steps[s].grad_norm, oracle[s].grad_norm, 1e-12 * oracle[s].grad_norm);
  }
  ASSERT_EQ(run.measured["ranks"].size(), static_cast<size_t>(c.spec.parallel.world()));
  EXPECT_TRUE(plan_equals_measured(run.plan, run.measured))
      << planned_measured_table(run.plan, run.measured);
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (const char c : info.param) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Stages, PipeDreamTest,
    ::testing::Values("pp=1 schedule=pipedream global_batch=3",
                      "pp=2 schedule=pipedream global_batch=1",
                      "pp=2 schedule=pipedream global_batch=5 mask=some",
                      "pp=2 schedule=pipedream layers=3 stage_layers=[2,1] global_batch=4",
                      "pp=3 schedule=pipedream layers=3 global_batch=2",
                      "pp=3 schedule=pipedream layers=3 global_batch=7 mask=some vocab=37",
                      "pp=4 schedule=pipedream layers=4 global_batch=6",
                      "pp=4 schedule=pipedream layers=4 global_batch=9 loss_chunk=5"),
    test_name);
INSTANTIATE_TEST_SUITE_P(
    Groups, PipeDreamTest,
    ::testing::Values("pp=2 schedule=pipedream-2bw global_batch=6 mask=some",
                      "pp=2 schedule=pipedream-2bw schedule_group=4 global_batch=8",
                      "pp=2 schedule=pipedream-2bw global_batch=5",
                      "pp=3 schedule=pipedream-2bw layers=3 global_batch=9",
                      "pp=3 schedule=pipedream-2bw layers=3 global_batch=8 mask=some",
                      "pp=4 schedule=pipedream-2bw layers=4 global_batch=12",
                      "pp=4 schedule=pipedream-2bw layers=4 global_batch=3"),
    test_name);
// Qwen 3: norms of queries and keys. Mixtral: experts, and a loss that is none of the tokens'.
INSTANTIATE_TEST_SUITE_P(
    Models, PipeDreamTest,
    ::testing::Values("pp=2 family=qwen3 schedule=pipedream global_batch=4",
                      "pp=2 family=mixtral experts=4 schedule=pipedream global_batch=4 mask=some",
                      "pp=2 dp=2 family=mixtral experts=4 schedule=pipedream-2bw global_batch=8",
                      "pp=2 tp=2 ep=2 family=mixtral experts=4 schedule=pipedream global_batch=4"),
    test_name);
INSTANTIATE_TEST_SUITE_P(
    OtherAxes, PipeDreamTest,
    ::testing::Values(
        "pp=2 dp=2 schedule=pipedream global_batch=8 mask=replica",
        "pp=2 dp=2 zero=1 schedule=pipedream global_batch=8 mask=some",
        "pp=2 fsdp=2 zero=1 schedule=pipedream-2bw global_batch=12 mask=replica",
        "pp=2 dp=2 zero=0 grad_reduce=micro_batch schedule=pipedream-2bw global_batch=12",
        "pp=2 fsdp=2 zero=2 schedule=pipedream global_batch=8 mask=some",
        "pp=2 fsdp=2 zero=2 schedule=pipedream-2bw global_batch=8",
        "pp=2 fsdp=2 zero=3 schedule=pipedream global_batch=8 mask=some",
        "pp=3 fsdp=2 zero=3 layers=3 schedule=pipedream-2bw global_batch=18",
        "pp=2 tp=2 schedule=pipedream global_batch=4 kv_heads=1",
        "pp=2 tp=2 sequence_parallel=true schedule=pipedream global_batch=5 mask=some",
        "pp=3 tp=2 layers=3 schedule=pipedream-2bw global_batch=6",
        "pp=2 dp=2 tp=2 zero=1 sequence_parallel=true schedule=pipedream global_batch=10",
        "pp=2 recompute=full schedule=pipedream global_batch=5",
        "pp=3 layers=3 recompute=selective schedule=pipedream-2bw global_batch=6",
        "pp=2 cp=2 schedule=pipedream global_batch=4 mask=some",
        "pp=2 cp=2 tp=2 zero=1 cp_kind=ulysses schedule=pipedream-2bw global_batch=6"),
    test_name);

// ---- that the comparison can fail ----

std::string small(const std::string& schedule) {
  return fmt::format("pp=2 schedule={} global_batch=4 clip=0", schedule);
}

TEST(PipeDreamRuleTest, OtherRulesGiveOtherWeights) {
  const TinyCase c = parse_case(small("pipedream"));
  const SampleSource samples = random_samples(c.spec, c.mask);
  const std::vector<StepRecord> oracle = Reference(c.spec, samples, rule_of(c.spec)).run();
  const Rule in_time{1, 1, false};  // as if every stage were the last
  EXPECT_GT(worst_weight(Reference(c.spec, samples, in_time).run(), oracle), 1e-6);
  const Rule two_buffers{2, 2, true};
  EXPECT_GT(worst_weight(Reference(c.spec, samples, two_buffers).run(), oracle), 1e-6);
}

// The naive pipeline without stashing: backward reads the newest weights. With two stages and two
// slots the newest version is in the other slot from the second micro-batch on.
void read_newest_in_backward(Program& program) {
  std::map<BufferId, BufferId> other;
  for (const BucketBuffers& bucket : program.buckets) {
    if (bucket.full == kNoBuffer) continue;
    const Buffer base = program.buffer(bucket.full);
    const int64_t stride = (base.bytes() + 63) / 64 * 64;
    const size_t count = program.buffers.size();
    for (size_t id = 0; id < count; ++id) {
      Buffer buffer = program.buffers[id];
      const int64_t at = buffer.offset - base.offset;
      if (buffer.arena != ArenaKind::kParameters || at < 0 || at >= 2 * stride) continue;
      buffer.offset += at < stride ? stride : -stride;
      other[static_cast<BufferId>(id)] = static_cast<BufferId>(program.buffers.size());
      program.buffers.push_back(buffer);
    }
  }
  for (Instruction& instruction : program.instructions) {
    const Pass pass = instruction.tag.pass;
    const bool backward = pass == Pass::kInputGrad || pass == Pass::kWeightGrad;
    if (!backward || instruction.micro_batch < 1) continue;
    for (BufferId& id : instruction.inputs) {
      if (const auto found = other.find(id); found != other.end()) id = found->second;
    }
  }
}

TEST(PipeDreamRuleTest, NewestWeightsInBackwardAreCaughtByNameAndChangeTheResult) {
  const TinyCase c = parse_case(small("pipedream"));
  const SampleSource samples = random_samples(c.spec, c.mask);
  const std::vector<StepRecord> oracle = Reference(c.spec, samples, rule_of(c.spec)).run();
  CompiledRun compiled = compile_here(c.spec);
  ASSERT_EQ(compiled.programs[0].weight_versions, 2);
  read_newest_in_backward(compiled.programs[0]);
  try {
    check_versions(compiled.programs[0], compiled.step.stages.versions[0]);
    FAIL() << "the check accepts a backward at another version than its forward";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("reads version 1 of"), std::string::npos)
        << error.what();
  }
  World world(std::move(compiled.step), std::move(compiled.programs));
  std::vector<StepRecord> naive;
  for (int64_t step = 1; step <= kSteps; ++step) {
    world.run([&](int, Executor& executor) {
      if (step == 1) {
        load_weights(executor, world.step(), initial_weights(c.spec.model, c.spec.train.seed));
      }
      fill_inputs(executor, c.spec, step, samples);
      executor.run(step_params(c.spec, step));
    });
    StepRecord record;
    record.weights = gather_state(world, StateKind::kWeights);
    naive.push_back(std::move(record));
  }
  EXPECT_GT(worst_weight(naive, oracle), 1e-6);
}

TEST(PipeDreamRuleTest, TwoRunsAreEqualBitForBit) {
  for (const char* line : {"pp=3 layers=3 schedule=pipedream global_batch=7 dtype=bf16",
                           "pp=2 dp=2 zero=1 schedule=pipedream-2bw global_batch=8 dtype=f32"}) {
    const TinyCase c = parse_case(std::string(line) + " clip=0");
    const SampleSource samples = random_samples(c.spec, c.mask);
    const std::vector<StepRecord> a = testing::record(c.spec, samples);
    const std::vector<StepRecord> b = testing::record(c.spec, samples);
    for (size_t s = 0; s < a.size(); ++s) {
      EXPECT_EQ(a[s].loss, b[s].loss);
      for (size_t t = 0; t < a[s].weights.size(); ++t) {
        EXPECT_EQ(a[s].weights[t].values, b[s].weights[t].values) << a[s].weights[t].tensor.name;
      }
    }
  }
}

// ZeRO stages do the same arithmetic in the same order where they reduce at the same points.
TEST(PipeDreamRuleTest, ZeroStagesAreEqualBitForBit) {
  const auto weights = [](int zero) {
    const TinyCase c =
        parse_case(fmt::format("pp=2 fsdp=2 zero={} grad_reduce=micro_batch schedule=pipedream "
                               "global_batch=8 dtype=f32 clip=0",
                               zero));
    return testing::record(c.spec, random_samples(c.spec, c.mask)).back().weights;
  };
  const std::vector<LogicalValues> oracle = weights(0);
  for (const int zero : {1, 2, 3}) {
    const std::vector<LogicalValues> mine = weights(zero);
    for (size_t t = 0; t < oracle.size(); ++t) {
      EXPECT_EQ(mine[t].values, oracle[t].values) << "ZeRO-" << zero << oracle[t].tensor.name;
    }
  }
}

}  // namespace
}  // namespace tessera
