// Training in bf16 and f16: what is stored wide, and what happens when f16 overflows.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/testing/test_folder.h"
#include "support/record.h"
#include "support/tiny.h"
#include "train/plan_report.h"
#include "train/session/loss_scale.h"
#include "train/session/session.h"

namespace tessera {
namespace {

using testing::parse_case;
using testing::random_samples;
using testing::TestFolder;
using testing::TinyCase;

const char* const kMeshes[] = {"dp=1", "dp=2 tp=2 zero=1 sequence_parallel=true",
                               "dp=2 fsdp=2 tp=2 zero=3 global_batch=8",
                               "fsdp=2 zero=2 global_batch=8 tied=true"};

double worst(std::span<const LogicalValues> a, std::span<const LogicalValues> b) {
  double most = 0;
  for (const Difference& d : differences(a, b)) most = std::max(most, d.relative);
  return most;
}

TEST(PrecisionTest, GradientsAndOptimizerStateAreWideWeightsAreNarrow) {
  for (const char* dtype : {" dtype=bf16", " dtype=f16"}) {
    for (const std::string mesh : kMeshes) {
      SCOPED_TRACE(mesh + dtype);
      const RunSpec spec = parse_case(mesh + dtype).spec;
      const CompiledRun run = compile_run(spec);
      for (const Program& program : run.programs) {
        for (const BucketBuffers& bucket : program.buckets) {
          EXPECT_EQ(program.buffer(bucket.weights).dtype, spec.train.dtype);
          for (const BufferId wide : {bucket.gradient, bucket.m, bucket.v}) {
            ASSERT_NE(wide, kNoBuffer);
            EXPECT_EQ(program.buffer(wide).dtype, DType::kF32);
          }
          ASSERT_NE(bucket.master, kNoBuffer);
          EXPECT_EQ(program.buffer(bucket.master).dtype,
                    spec.train.dtype == DType::kBF16 ? DType::kBF16 : DType::kF32);
        }
        for (const Instruction& i : program.instructions) {
          if (i.tag.pass != Pass::kReduce || i.outputs.empty()) continue;
          EXPECT_EQ(program.buffer(i.outputs[0]).dtype, DType::kF32) << i.name;
        }
      }
    }
  }
}

TEST(PrecisionTest, Bf16GradientsAreStoredAndSummedSo) {
  for (const std::string mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    const CompiledRun run = compile_run(parse_case(mesh + " dtype=bf16 gradients=bf16").spec);
    for (const Program& program : run.programs) {
      for (const BucketBuffers& bucket : program.buckets) {
        EXPECT_EQ(program.buffer(bucket.gradient).dtype, DType::kBF16);
        EXPECT_EQ(program.buffer(bucket.m).dtype, DType::kF32);
        EXPECT_EQ(program.buffer(bucket.v).dtype, DType::kF32);
      }
      for (const Instruction& i : program.instructions) {
        const bool gradient = i.tag.pass == Pass::kReduce || i.tag.pass == Pass::kWeightGrad;
        if (!gradient || i.outputs.empty()) continue;
        EXPECT_EQ(program.buffer(i.outputs[0]).dtype, DType::kBF16) << i.name;
      }
    }
  }
}

ShortRun with_gradients(RunSpec spec, const std::string& gradients, const SampleSource& samples) {
  spec.train.gradients = gradients;
  return testing::short_run(spec, samples);
}

// Beside those of the same mesh in f32, whose forward and backward have the same bits.
TEST(PrecisionTest, Bf16GradientsAreRoundedF32Ones) {
  for (const char* mesh :
       {"dp=1", "dp=2 tp=2 zero=1 sequence_parallel=true", "dp=2 fsdp=2 zero=3",
        "fsdp=2 zero=2 global_batch=8 tied=true",
        "dp=2 zero=2 global_batch=8 grad_reduce=micro_batch", "pp=2 tied=true", "cp=2 loss_chunk=3",
        "dp=2 family=gpt2", "tp=2 family=qwen3", "fsdp=2 ep=2 family=mixtral experts=4"}) {
    SCOPED_TRACE(mesh);
    const RunSpec spec = parse_case(std::string(mesh) + " dtype=bf16").spec;
    const SampleSource samples = random_samples(spec, "some");
    ShortRun narrow = with_gradients(spec, "bf16", samples);
    ShortRun wide = with_gradients(spec, "f32", samples);
    narrow.steps = wide.steps = 1;
    const StepRecord mine = record_run(narrow)[0], exact = record_run(wide)[0];
    EXPECT_EQ(mine.loss, exact.loss);
    EXPECT_LT(worst(mine.gradients, exact.gradients), 1e-2);
    EXPECT_GT(worst(mine.gradients, exact.gradients), 0) << "nothing was rounded";
    EXPECT_NEAR(mine.grad_norm, exact.grad_norm, 4e-3 * exact.grad_norm);
  }
}

// Four samples, again and again.
TEST(PrecisionTest, Bf16GradientsLearnLikeF32Ones) {
  for (const char* mesh : {"dp=1", "dp=2 tp=2 zero=1", "fsdp=2 zero=3"}) {
    SCOPED_TRACE(mesh);
    const RunSpec spec = parse_case(std::string(mesh) + " dtype=bf16").spec;
    const SampleSource random = random_samples(spec, "none");
    const SampleSource four = [&](int64_t sample, std::span<int32_t> tokens,
                                  std::span<int32_t> labels) {
      random(sample % 4, tokens, labels);
    };
    ShortRun narrow = with_gradients(spec, "bf16", four);
    ShortRun wide = with_gradients(spec, "f32", four);
    narrow.steps = wide.steps = 50;
    const std::vector<StepRecord> mine = record_run(narrow), exact = record_run(wide);
    const double learnt = exact.front().loss - exact.back().loss;
    EXPECT_GT(learnt, 0.3 * exact.front().loss);
    EXPECT_NEAR(mine.back().loss, exact.back().loss, 1e-2 * learnt);
  }
}

// 512 micro-batches of one and the same sample: a narrow sum would stop growing at 256 times its
// term (bf16) or lose a part of every term (f16).
TEST(PrecisionTest, GradientsAccumulateInF32) {
  for (const std::string dtype : {"dtype=bf16", "dtype=f16 loss_scale=64"}) {
    SCOPED_TRACE(dtype);
    const TinyCase once = parse_case(dtype + " global_batch=1");
    const TinyCase often = parse_case(dtype + " global_batch=512");
    const SampleSource random = random_samples(once.spec, "none");
    const SampleSource same = [&](int64_t, std::span<int32_t> tokens, std::span<int32_t> labels) {
      random(0, tokens, labels);
    };
    ShortRun run = testing::short_run(once.spec, same);
    run.steps = 1;
    const std::vector<StepRecord> one = record_run(run);
    run.spec = often.spec;
    EXPECT_LT(worst(record_run(run)[0].gradients, one[0].gradients), 1e-5);
  }
}

// Updates far below the spacing of the narrow weights are not lost: they add up in the f32 copy.
TEST(PrecisionTest, MasterWeightsKeepWhatNarrowOnesCannotShow) {
  for (const std::string dtype : {"bf16", "f16"}) {
    SCOPED_TRACE(dtype);
    const std::string line = " lr=3e-5 weight_decay=0 dtype=";
    ShortRun run = testing::short_run(parse_case(line + dtype).spec,
                                      random_samples(parse_case("dp=1").spec, "none"));
    run.steps = 60;
    run.constant_lr = true;
    const std::vector<StepRecord> narrow = record_run(run);
    run.spec = parse_case(line + "f32").spec;
    const std::vector<StepRecord> wide = record_run(run);
    const std::vector<LogicalValues>& start = narrow.front().weights;
    // Norm weights start at 1; 60 updates of 3e-5 are half a bf16 step, so those move at last.
    EXPECT_LT(worst(narrow.back().weights, wide.back().weights), 6e-3);
    EXPECT_GT(worst(narrow.back().weights, start), 1e-3) << "nothing moved in 60 steps";
  }
}

TEST(PrecisionTest, TheScaleDoesNotChangeTheGradient) {
  const TinyCase plain = parse_case("dp=2 tp=2 dtype=f16 loss_scale=256");
  const SampleSource samples = random_samples(plain.spec, "some");
  const std::vector<StepRecord> a = testing::record(plain.spec, samples);
  const std::vector<StepRecord> b =
      testing::record(parse_case("dp=2 tp=2 dtype=f16 loss_scale=2048").spec, samples);
  const std::vector<StepRecord> exact =
      testing::record(parse_case("dp=2 tp=2 dtype=f32").spec, samples);
  EXPECT_LT(worst(a[0].gradients, b[0].gradients), 1e-2);
  EXPECT_LT(worst(a[0].gradients, exact[0].gradients), 2e-2);
  EXPECT_NEAR(a[0].grad_norm, exact[0].grad_norm, 1e-2 * exact[0].grad_norm);
  EXPECT_NEAR(b[0].grad_norm, exact[0].grad_norm, 1e-2 * exact[0].grad_norm);
}

std::vector<nlohmann::json> metrics_of(const TestFolder& folder) {
  std::ifstream file(folder.path("run/metrics.jsonl"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

RunSpec f16_run(const std::string& line, const TestFolder& folder) {
  RunSpec spec = parse_case(line + " dtype=f16 vocab=256 steps=6 init_std=0.05").spec;
  spec.data.synth_bytes = 5000;
  spec.logging.run_dir = folder.path("run");
  return spec;
}

TEST(PrecisionTest, AnOverflowOnOneRankSkipsTheStepOnAllAndHalvesTheScale) {
  for (const std::string mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    const TestFolder folder;
    TrainOptions options;
    options.spec = f16_run(mesh + " loss_scale_hysteresis=1", folder);
    const int64_t rank = options.spec.parallel.world() - 1;
    options.inject =
        parse_injection(fmt::format("nan:tensor=d(layers.0.q.weight),step=3,rank={}", rank));
    run_training(options);
    const std::vector<nlohmann::json> lines = metrics_of(folder);
    ASSERT_EQ(lines.size(), 6U);
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(lines[i].at("loss_scale"), i < 3 ? kFirstLossScale : kFirstLossScale / 2) << i;
      EXPECT_EQ(lines[i].at("skipped_steps"), i < 2 ? 0 : 1) << i;
      EXPECT_EQ(lines[i].at("grad_norm").is_string(), i == 2) << i;
      EXPECT_TRUE(lines[i].at("loss").is_number());
    }
  }
}

TEST(PrecisionTest, ASkippedStepChangesNoWeightOnAnyRank) {
  for (const std::string mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    const TinyCase c = parse_case(mesh + " dtype=f16 init_std=0.05");
    ShortRun run = testing::short_run(c.spec, random_samples(c.spec, "none"));
    run.inject = parse_injection(fmt::format("nan:tensor=d(layers.1.down.weight),step=2,rank={}",
                                             c.spec.parallel.world() - 1));
    const std::vector<StepRecord> steps = record_run(run);
    EXPECT_FALSE(std::isfinite(steps[1].grad_norm));
    EXPECT_TRUE(std::isfinite(steps[1].loss));
    EXPECT_EQ(worst(steps[1].weights, steps[0].weights), 0);
    EXPECT_GT(worst(steps[2].weights, steps[1].weights), 1e-4);
  }
}

// Steps 1, 2 and 3, of which the second overflows, against steps 1 and 3 alone.
TEST(PrecisionTest, AfterASkippedStepTrainingGoesOnAsIfItHadNotBeen) {
  for (const std::string mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    const TinyCase c = parse_case(mesh + " dtype=f16 init_std=0.05");
    const SampleSource samples = random_samples(c.spec, "none");
    const int64_t batch = c.spec.train.global_batch;
    ShortRun skipping = testing::short_run(c.spec, samples);
    skipping.constant_lr = true;
    skipping.inject = parse_injection("nan:tensor=d(layers.1.down.weight),step=2,rank=0");
    ShortRun leaving_out = testing::short_run(
        c.spec, [&](int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
          samples(sample < batch ? sample : sample + batch, tokens, labels);
        });
    leaving_out.constant_lr = true;
    leaving_out.steps = 2;
    EXPECT_EQ(worst(record_run(skipping)[2].weights, record_run(leaving_out)[1].weights), 0);
  }
}

TEST(PrecisionTest, TheScaleGrowsAfterTheInterval) {
  const TestFolder folder;
  TrainOptions options;
  options.spec = f16_run("dp=2 loss_scale_interval=2", folder);
  run_training(options);
  const std::vector<nlohmann::json> lines = metrics_of(folder);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(lines[i].at("loss_scale"), kFirstLossScale * static_cast<double>(1 << (i / 2)));
  }
}

TEST(PrecisionTest, AFixedScaleThatOverflowsEndsTheRunAndSaysWhatToDo) {
  const TestFolder folder;
  TrainOptions options;
  options.spec = f16_run("dp=2 loss_scale=128", folder);
  options.inject = parse_injection("nan:tensor=d(layers.0.q.weight),step=3,rank=1");
  try {
    run_training(options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDiverged);
    EXPECT_NE(std::string(error.what()).find("step 3"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("train.loss_scale = 0"), std::string::npos);
  }
}

TEST(PrecisionTest, ALossThatIsNotFiniteIsNoOverflow) {
  const TestFolder folder;
  TrainOptions options;
  options.spec = f16_run("dp=2", folder);
  options.inject = parse_injection("nan:tensor=layers.0.o,step=2,rank=1");
  EXPECT_THROW(run_training(options), Error);
}

TEST(PrecisionTest, AScaleIsForF16Alone) {
  EXPECT_THROW(parse_case("dtype=bf16 loss_scale=8"), ConfigError);
  EXPECT_THROW(parse_case("dtype=f16 loss_scale=65536"), ConfigError);
}

}  // namespace
}  // namespace tessera
