// Whole steps on a GPU beside the CPU: every gradient of every model family, low precision within
// its bound, repetition bit for bit, and learning. equivalence_test --device cuda has the meshes.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "spec/run_file.h"
#include "support/record.h"
#include "support/tiny.h"
#include "tensor/gpu_memory.h"
#include "train/plan_report.h"
#include "train/verify.h"

namespace tessera {
namespace {

using testing::parse_case;
using testing::random_samples;
using testing::TinyCase;

#define SKIP_WITHOUT_GPU()                                      \
  if (const auto gpu = cuda::gpu_info(0); !gpu.why_not.empty()) \
  GTEST_SKIP() << "no GPU: " << gpu.why_not

constexpr const char* kModels[] = {"llama-gqa", "llama31-rope", "gpt2",   "mistral-window",
                                   "qwen2",     "qwen3",        "mixtral"};

RunSpec model_spec(const std::string& name, DType dtype) {
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/" + name;
  std::ifstream file(folder + "/config.json");
  const std::string config((std::istreambuf_iterator<char>(file)), {});
  RunSpec spec;
  spec.model = model_from_hf_config(config, folder);
  spec.model.hf = folder;
  spec.train.dtype = dtype;
  spec.train.micro_batch = 2;
  spec.train.seq_len = 24;
  spec.train.threads = 1;
  resolve(spec);
  return spec;
}

RunSpec on_gpu(RunSpec spec) {
  spec.train.device = "cuda";
  return spec;
}

TEST(CudaTest, EveryModelMatchesTheCpu) {
  SKIP_WITHOUT_GPU();
  for (const char* model : kModels) {
    for (const auto& [dtype, tolerance] :
         {std::pair(DType::kF64, 1e-11), std::pair(DType::kF32, 2e-4)}) {
      SCOPED_TRACE(fmt::format("{} {}", model, name_of(dtype)));
      const RunSpec spec = model_spec(model, dtype);
      const SampleSource samples = random_samples(spec, "some");
      const MeasuredRun run = record_and_measure(testing::short_run(on_gpu(spec), samples));
      testing::expect_equal(run.steps, testing::record(spec, samples), tolerance);
      EXPECT_TRUE(plan_equals_measured(run.plan, run.measured))
          << planned_measured_table(run.plan, run.measured);
    }
  }
}

TensorSource rounded(TensorSource source) {
  return [source = std::move(source)](const LogicalTensor& tensor, int64_t first,
                                      std::span<double> values) {
    source(tensor, first, values);
    for (double& v : values) v = static_cast<float>(BFloat16(static_cast<float>(v)));
  };
}

// Per tensor: 4 * 1.03^depth * 2^-8, depth being the number of blocks between it and the loss, of
// the gradient that exact arithmetic gives for the same weights. Mixtral is left out: where two
// experts are nearly as likely, rounding chooses another one.
TEST(CudaTest, Bf16GradientsAreWithinTheirBound) {
  SKIP_WITHOUT_GPU();
  for (const std::string model : kModels) {
    if (model == "mixtral") continue;
    SCOPED_TRACE(model);
    RunSpec exact = model_spec(model, DType::kF64);
    exact.model.hf.clear();
    RunSpec narrow = on_gpu(exact);
    narrow.train.dtype = DType::kBF16;
    ShortRun run = testing::short_run(exact, random_samples(exact, "some"));
    run.weights = rounded(initial_weights(exact.model, 1));
    const StepRecord reference = record_run(run).front();
    run.spec = narrow;
    const StepRecord mine = record_run(run).front();
    const double bound = 4 * std::pow(1.03, static_cast<double>(exact.model.layers + 1)) / 256;
    double worst = 0;
    for (const Difference& d : differences(mine.gradients, reference.gradients)) {
      EXPECT_LE(d.relative, bound) << d.name;
      worst = std::max(worst, d.relative);
    }
    fmt::print("{}: {:.4f} at most, the bound is {:.4f}\n", model, worst, bound);
  }
}

TEST(CudaTest, AStepRepeatsBitForBit) {
  SKIP_WITHOUT_GPU();
  for (const char* model : kModels) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(fmt::format("{} {}", model, name_of(dtype)));
      const RunSpec spec = on_gpu(model_spec(model, dtype));
      const SampleSource samples = random_samples(spec, "some");
      testing::expect_equal(testing::record(spec, samples), testing::record(spec, samples), 0.0);
    }
  }
}

// Without a GPU, or without CUDA, a run that wants one says why not.
TEST(CudaTest, ARunThatWantsAGpuWhereThereIsNoneIsRefused) {
  if (cuda::gpu_info(0).why_not.empty()) GTEST_SKIP() << "there is one";
  const RunSpec spec = on_gpu(model_spec("llama-gqa", DType::kF32));
  try {
    (void)testing::record(spec, random_samples(spec, "none"));
    FAIL() << "ran";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cpu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tessera
