// Whole steps on a GPU beside the CPU: every gradient of every model family, low precision within
// its bound, repetition bit for bit, and learning. equivalence_test --device cuda has the meshes.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/testing/test_folder.h"
#include "comm/nccl/nccl_world.h"
#include "support/bf16_bound.h"
#include "support/command.h"
#include "support/packed_chats.h"
#include "support/two_documents.h"
#include "tensor/gpu_memory.h"
#include "train/report/planned_measured.h"
#include "train/session/session.h"
#include "train/verify/verify.h"

namespace tessera {
namespace {

using testing::bound_spec;
using testing::bound_use;
using testing::BoundUse;
using testing::first_step;
using testing::hf_model_spec;
using testing::in_bf16;
using testing::kHfModels;
using testing::random_samples;
using testing::read_file;
using testing::TestFolder;

#define SKIP_WITHOUT_GPU()                                      \
  if (const auto gpu = cuda::gpu_info(0); !gpu.why_not.empty()) \
  GTEST_SKIP() << "no GPU: " << gpu.why_not

RunSpec on_gpu(RunSpec spec) {
  spec.train.device = TrainDevice::kCuda;
  return spec;
}

TEST(CudaTest, EveryModelMatchesTheCpu) {
  SKIP_WITHOUT_GPU();
  for (const char* model : kHfModels) {
    for (const auto& [dtype, tolerance] :
         {std::pair(DType::kF64, 1e-11), std::pair(DType::kF32, 2e-4)}) {
      SCOPED_TRACE(fmt::format("{} {}", model, name_of(dtype)));
      const RunSpec spec = hf_model_spec(model, dtype);
      const SampleSource samples = random_samples(spec, "some");
      const MeasuredRun run = record_and_measure(testing::short_run(on_gpu(spec), samples));
      testing::expect_equal(run.steps, testing::record(spec, samples), tolerance);
      EXPECT_TRUE(plan_equals_measured(run.plan, run.measured))
          << planned_measured_table(run.plan, run.measured);
    }
  }
}

// Trains six steps, and the same cut off after the first and gone on from its checkpoint.
void train_and_go_on(const TestFolder& folder, const std::string& flags) {
  folder.write(
      "run.toml",
      "[model]\nlayers=2\nhidden=64\nffn=96\nheads=2\nvocab=256\n[train]\nseq_len=32\n"
      "global_batch=4\nsteps=6\ndtype=\"bf16\"\ndevice=\"cuda\"\n[data.synth]\nbytes=3000\n"
      "[optimizer]\nlr=1e-2\n[checkpoint]\nevery=1\nkeep=2\n");
  const auto train = [&](const std::string& dir, const std::string& more) {
    const testing::CommandResult result = testing::tessera(
        folder, "train run.toml -q --threads " + flags + " --set logging.run_dir=" + dir + more);
    ASSERT_EQ(result.code, 0) << result.err;
  };
  train("straight", "");
  train("cut", " --max-minutes 0.000001");
  train("cut", " --resume auto");
}

TEST(CudaTest, ARunThatGoesOnEndsWithTheSameBits) {
  SKIP_WITHOUT_GPU();
  for (const std::string mesh : {"dp=1", "dp=2,zero=1", "tp=2"}) {
    SCOPED_TRACE(mesh);
    const TestFolder folder;
    train_and_go_on(folder, "--set train.deterministic=true --mesh " + mesh);
    EXPECT_TRUE(read_file(folder.path("cut/model.safetensors")) ==
                read_file(folder.path("straight/model.safetensors")));
    for (const std::string run : {"cut", "straight"}) {
      const auto json = [&](const std::string& name) {
        return nlohmann::json::parse(read_file(folder.path(run + "/" + name))).at("checkpoints");
      };
      EXPECT_EQ(json("plan.json").at("staging_bytes"), json("summary.json").at("staging_bytes"));
    }
  }
}

// Algorithms are chosen by a step that spoils the states of the optimizer: not those of a
// checkpoint.
TEST(CudaTest, ARunThatGoesOnKeepsTheStatesOfItsOptimizer) {
  SKIP_WITHOUT_GPU();
  const TestFolder folder;
  train_and_go_on(folder, "");
  const auto straight = testing::read_metrics(folder.path("straight/metrics.jsonl"));
  const auto cut = testing::read_metrics(folder.path("cut/metrics.jsonl"));
  ASSERT_EQ(straight.size(), cut.size());
  for (size_t i = 0; i < cut.size(); ++i) {
    EXPECT_NEAR(cut[i].at("loss").get<double>(), straight[i].at("loss").get<double>(), 2e-2) << i;
  }
}

// Against exact arithmetic, and against the CPU in the same type. Where both round at the same
// places, sums of another order still put values on other sides, so the two are no nearer.
TEST(CudaTest, Bf16GradientsAreWithinTheirBound) {
  SKIP_WITHOUT_GPU();
  for (const char* model : kHfModels) {
    for (const uint64_t seed : testing::kBoundSeeds) {
      SCOPED_TRACE(fmt::format("{}, seed {}", model, seed));
      const RunSpec spec = bound_spec(model);
      const TensorSource weights = testing::bf16_weights(spec.model, seed);
      const StepRecord mine = first_step(on_gpu(in_bf16(spec)), weights);
      for (const RunSpec& other : {spec, in_bf16(spec)}) {
        const BoundUse use = bound_use(mine, first_step(other, weights), spec.model.layers);
        EXPECT_LE(use.part, 1) << use.tensor << " against " << name_of(other.train.dtype);
        fmt::print("{} against {}: {:.2f} of the bound in {}\n", model, name_of(other.train.dtype),
                   use.part, use.tensor);
      }
    }
  }
}

TEST(CudaTest, Bf16BoundFindsRolledAndScaledWeights) {
  SKIP_WITHOUT_GPU();
  const RunSpec spec = bound_spec("llama-gqa");
  testing::expect_faults_found(spec, on_gpu(in_bf16(spec)));
}

// As DocumentsTest, with the kernels of the GPU; f64 and what cuDNN has none for use our own.
TEST(CudaTest, NothingLeaksOverTheBorderOfADocument) {
  SKIP_WITHOUT_GPU();
  for (const std::string dtype : {"f64", "f32", "bf16"}) {
    for (const std::string mesh : {"dp=1", "cp=2", "cp=2 cp_kind=allgather", "cp=2 cp_kind=ulysses",
                                   "tp=2 sequence_parallel=true", "pp=2 layers=4"}) {
      SCOPED_TRACE(dtype + " " + mesh);
      testing::expect_borders_to_hold(mesh + " device=cuda deterministic=true dtype=" + dtype);
    }
  }
}

TEST(CudaTest, PackedConversationsMatchTheCpu) {
  SKIP_WITHOUT_GPU();
  const TestFolder folder;
  testing::make_chat_folder(folder.path("chat"));
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::kF64, 1e-11), std::pair(DType::kF32, 2e-4)}) {
    for (const char* mesh : {"dp=1", "cp=2", "pp=2"}) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, name_of(dtype)));
      RunSpec spec = testing::packed_chat_spec(folder.path("chat"), mesh);
      spec.train.dtype = dtype;
      resolve(spec);
      const auto steps = [](const RunSpec& on, bool with_borders) {
        return record_run(testing::packed_chat_run(on, with_borders));
      };
      const std::vector<StepRecord> mine = steps(on_gpu(spec), true);
      testing::expect_equal(mine, steps(spec, true), tolerance);
      EXPECT_GT(std::abs(steps(on_gpu(spec), false).front().loss - mine.front().loss), 1e-6)
          << "the borders change nothing";
    }
  }
}

TEST(CudaTest, AStepRepeatsBitForBit) {
  SKIP_WITHOUT_GPU();
  for (const char* model : kHfModels) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(fmt::format("{} {}", model, name_of(dtype)));
      const RunSpec spec = on_gpu(hf_model_spec(model, dtype));
      const SampleSource samples = random_samples(spec, "some");
      testing::expect_equal(testing::record(spec, samples), testing::record(spec, samples), 0.0);
    }
  }
}

// Synthetic stories, as in examples/demo.toml.
RunSpec demo_spec(DType dtype) {
  RunSpec spec;
  spec.model.layers = 4;
  spec.model.hidden = 128;
  spec.model.ffn = 352;
  spec.model.heads = 4;
  spec.model.kv_heads = 2;
  spec.model.vocab = 256;
  spec.train.seq_len = 128;
  spec.train.micro_batch = 8;
  spec.train.steps = 300;
  spec.train.dtype = dtype;
  spec.train.device = TrainDevice::kCuda;
  spec.optimizer.lr = 1e-3;
  spec.optimizer.warmup = 20;
  resolve(spec);
  return spec;
}

double mean_of_last_losses(const RunSpec& spec) {
  const TestFolder folder;
  TrainOptions options;
  options.spec = spec;
  options.spec.logging.run_dir = folder.path("run");
  std::vector<double> losses;
  options.on_progress = [&](const TrainProgress& progress) { losses.push_back(progress.loss); };
  (void)run_training(options);
  double sum = 0;
  for (size_t i = losses.size() - 20; i < losses.size(); ++i) sum += losses[i];
  return sum / 20;
}

TEST(CudaTest, Bf16LearnsLikeF32) {
  SKIP_WITHOUT_GPU();
  const double wide = mean_of_last_losses(demo_spec(DType::kF32));
  const double narrow = mean_of_last_losses(demo_spec(DType::kBF16));
  EXPECT_LT(wide, 2.5) << "nothing was learned";
  EXPECT_NEAR(narrow, wide, 0.01 * wide);
  fmt::print("after 300 steps: f32 {:.4f}, bf16 {:.4f}\n", wide, narrow);
}

TEST(CudaTest, ARunThatDoesNotFitIsRefusedBeforeItStarts) {
  SKIP_WITHOUT_GPU();
  RunSpec spec = demo_spec(DType::kF32);
  spec.model.hidden = 16384;
  spec.model.heads = spec.model.kv_heads = 128;
  spec.model.head_dim = 128;
  spec.model.ffn = 65536;
  resolve(spec);
  TrainOptions options;
  options.spec = spec;
  try {
    (void)run_training(options);
    FAIL() << "ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDoesNotFit);
    for (const char* part : {"does not fit", "optimizer", "activations", "free"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

// Losses of every step, and the weights after the last one, byte by byte.
struct TrainedRun {
  std::vector<double> losses;
  std::string weights;
  std::string graph;
};

TrainedRun train_with_graph(CudaGraph graph, DType dtype) {
  const TestFolder folder;
  TrainOptions options;
  options.spec = demo_spec(dtype);
  options.spec.train.steps = 12;
  options.spec.train.deterministic = true;
  options.spec.train.cuda_graph = graph;
  options.spec.logging.run_dir = folder.path("run");
  TrainedRun run;
  options.on_progress = [&](const TrainProgress& progress) { run.losses.push_back(progress.loss); };
  run.graph = run_training(options).measured.at("cuda_graph").get<std::string>();
  run.weights = read_file(folder.path("run/model.safetensors"));
  return run;
}

TEST(CudaTest, AGraphOfTheStepChangesNoBit) {
  SKIP_WITHOUT_GPU();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(name_of(dtype));
    const TrainedRun launched = train_with_graph(CudaGraph::kOff, dtype);
    const TrainedRun replayed = train_with_graph(CudaGraph::kOn, dtype);
    EXPECT_EQ(launched.graph, "none: train.cuda_graph is \"off\"");
    EXPECT_NE(replayed.graph.find(" nodes"), std::string::npos) << replayed.graph;
    EXPECT_EQ(launched.losses, replayed.losses);
    EXPECT_TRUE(launched.weights == replayed.weights);
    EXPECT_GT(launched.weights.size(), 1000U);
    const TrainedRun chosen = train_with_graph(CudaGraph::kAuto, dtype);
    EXPECT_EQ(launched.losses, chosen.losses);
    fmt::print("{}: auto chose {}\n", name_of(dtype), chosen.graph);
  }
}

TEST(CudaTest, AGraphThatCannotBeIsRefusedOrLeftOut) {
  SKIP_WITHOUT_GPU();
  const TestFolder folder;
  TrainOptions options;
  options.spec = demo_spec(DType::kF32);
  options.spec.train.steps = 4;
  options.spec.parallel.dp = 2;
  options.spec.train.global_batch = 16;
  options.spec.logging.run_dir = folder.path("run");
  resolve(options.spec);
  EXPECT_EQ(run_training(options).measured.at("cuda_graph"),
            "none: its collectives meet on the host");
  options.spec.train.cuda_graph = CudaGraph::kOn;
  options.spec.logging.run_dir = folder.path("other");
  EXPECT_THROW((void)run_training(options), ConfigError);
}

// A failure of the GPU ends its process's use of it: these runs are processes of their own.
class CudaFaultTest : public ::testing::Test {
 protected:
  testing::CommandResult train(const std::string& more) {
    std::ofstream(folder_.path("run.toml")) << testing::tiny_run_file();
    return testing::tessera(folder_,
                            "train run.toml --threads --set train.device=cuda "
                            "--set train.steps=6 --set parallel.tp=1 --set "
                            "parallel.sequence_parallel=false " +
                                more);
  }
  TestFolder folder_;
};

void expect_words(const testing::CommandResult& result, const std::vector<std::string>& words) {
  EXPECT_EQ(result.code, 1) << result.err;
  for (const std::string& word : words) {
    EXPECT_NE(result.err.find(word), std::string::npos) << "no '" << word << "' in: " << result.err;
  }
}

constexpr const char* kOneRank = "--set parallel.dp=1 ";

TEST_F(CudaFaultTest, IsNamedByRankStepAndInstruction) {
  SKIP_WITHOUT_GPU();
  expect_words(train(std::string(kOneRank) +
                     "--set train.cuda_graph=off --inject gpu-fault:tensor=layers.1.down,step=3"),
               {"rank 0: step 3: instruction ", "'layers.1.down'): the GPU failed: ",
                "illegal memory access", "cudaErrorIllegalAddress"});
}

TEST_F(CudaFaultTest, IsNamedInsideAGraph) {
  SKIP_WITHOUT_GPU();
  const std::string graph = std::string(kOneRank) +
                            "--set train.cuda_graph=on "
                            "--inject gpu-fault:tensor=layers.1.down,step=5 ";
  expect_words(train(graph), {"rank 0: step 5: one of the instructions ", "'layers.1.down'",
                              "train.mark_every = 1 tells which", "cudaErrorIllegalAddress"});
  expect_words(train(graph + "--overwrite --set train.mark_every=1"),
               {"rank 0: step 5: instruction ", "'layers.1.down'): the GPU failed: "});
}

TEST_F(CudaFaultTest, EndsTheOtherRanksToo) {
  SKIP_WITHOUT_GPU();
  const auto start = std::chrono::steady_clock::now();
  expect_words(train("--set parallel.dp=2 --inject gpu-fault:tensor=layers.1.down,step=3,rank=1"),
               {": step 3: ", "another of the 2 ranks on this GPU", "cudaErrorIllegalAddress"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST_F(CudaFaultTest, IsRefusedOnTheCpu) {
  const testing::CommandResult result = train(std::string(kOneRank) +
                                              "--set train.device=cpu "
                                              "--inject gpu-fault:tensor=layers.1.down,step=3");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("the run is not on a GPU"), std::string::npos) << result.err;
}

TEST_F(CudaFaultTest, IsRefusedWhereThereIsNothingToFail) {
  SKIP_WITHOUT_GPU();
  const testing::CommandResult result =
      train(std::string(kOneRank) + "--inject gpu-fault:tensor=nothing,step=3");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("no kernel makes 'nothing'"), std::string::npos) << result.err;
}

// Ranks as processes, which NCCL connects. It wants a GPU for each: --share-gpu makes every rank a
// host of its own, so that several can meet on the one that there is.
class CudaNcclTest : public ::testing::Test {
 protected:
  // The summary of a run of the tiny model.
  nlohmann::json train(const std::string& flags) {
    std::ofstream(folder_.path("run.toml")) << testing::tiny_run_file();
    const testing::CommandResult result =
        testing::tessera(folder_,
                         "train run.toml --set train.device=cuda --set train.deterministic=true "
                         "--overwrite --set train.steps=4 " +
                             flags);
    EXPECT_EQ(result.code, 0) << result.err;
    if (result.code != 0) return nullptr;
    return nlohmann::json::parse(read_file(folder_.path("out/summary.json")));
  }
  void expect_same_loss(const std::string& mesh, const std::string& flags) {
    SCOPED_TRACE(mesh);
    const nlohmann::json processes = train(mesh + flags);
    const nlohmann::json threads = train(mesh + "--threads");
    if (processes.is_null() || threads.is_null()) return;
    EXPECT_EQ(processes.at("backend"), "nccl");
    EXPECT_EQ(threads.at("backend"), "local");
    const double loss = threads.at("final_loss").get<double>();
    EXPECT_NEAR(processes.at("final_loss").get<double>(), loss, 1e-5 * loss);
    EXPECT_EQ(processes.at("ranks"), threads.at("ranks")) << "memory, traffic, instructions";
  }
  TestFolder folder_;
};

#define SKIP_WITHOUT_NCCL()                                            \
  if (const std::string obstacle = nccl_obstacle(); !obstacle.empty()) \
  GTEST_SKIP() << "no NCCL: " << obstacle

TEST_F(CudaNcclTest, OneRankTrainsAsAProcess) {
  SKIP_WITHOUT_GPU();
  SKIP_WITHOUT_NCCL();
  expect_same_loss(
      "--set parallel.dp=1 --set parallel.tp=1 --set parallel.sequence_parallel=false ",
      "--backend nccl");
}

TEST_F(CudaNcclTest, TwoRanksThatShareAGpuTrainLikeThreads) {
  SKIP_WITHOUT_GPU();
  SKIP_WITHOUT_NCCL();
  for (const std::string mesh :
       {"--set parallel.dp=2 --set parallel.tp=1 --set parallel.sequence_parallel=false ",
        "--set parallel.dp=1 --set parallel.tp=2 ",
        "--set parallel.dp=1 --set parallel.tp=1 --set parallel.sequence_parallel=false "
        "--set parallel.pp=2 --set train.global_batch=4 "}) {
    expect_same_loss(mesh, "--share-gpu");
  }
}

TEST_F(CudaNcclTest, AFailedRankEndsTheOther) {
  SKIP_WITHOUT_GPU();
  SKIP_WITHOUT_NCCL();
  std::ofstream(folder_.path("run.toml")) << testing::tiny_run_file();
  const testing::CommandResult result =
      testing::tessera(folder_,
                       "train run.toml --set train.device=cuda --set parallel.tp=1 --set "
                       "parallel.sequence_parallel=false --set train.steps=6 --share-gpu "
                       "--inject gpu-fault:tensor=layers.1.down,step=3,rank=1");
  expect_words(result, {"rank 1: step 3: instruction ", "'layers.1.down'): the GPU failed: "});
}

TEST_F(CudaNcclTest, MoreProcessesThanGpusAreRefused) {
  SKIP_WITHOUT_GPU();
  std::ofstream(folder_.path("run.toml")) << testing::tiny_run_file();
  if (cuda::num_gpus() >= 4) GTEST_SKIP() << "there are enough";
  const testing::CommandResult result =
      testing::tessera(folder_, "train run.toml --set train.device=cuda");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("4 ranks of this host want a GPU each"), std::string::npos)
      << result.err;
}

// Without a GPU, or without CUDA, a run that wants one says why not.
TEST(CudaTest, ARunThatWantsAGpuWhereThereIsNoneIsRefused) {
  if (cuda::gpu_info(0).why_not.empty()) GTEST_SKIP() << "there is one";
  const RunSpec spec = on_gpu(hf_model_spec("llama-gqa", DType::kF32));
  try {
    (void)testing::record(spec, random_samples(spec, "none"));
    FAIL() << "ran";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cpu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tessera
