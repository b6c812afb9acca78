// A training step allocates nothing: malloc and its relatives are replaced in this program by
// versions that note who calls them, on every thread.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/testing/replace_malloc.h"
#include "runtime/world.h"
#include "support/tiny.h"
#include "train/samples/batch.h"
#include "train/session/step_params.h"
#include "train/weights/weights.h"

namespace {

constexpr size_t kMaxCallers = 1 << 16;
std::atomic<bool> recording{false};
std::atomic<size_t> num_callers{0};
std::array<std::atomic<const void*>, kMaxCallers> callers;

}  // namespace

static void on_allocation(const void* caller) {
  if (recording.load()) callers[std::min(num_callers.fetch_add(1), kMaxCallers - 1)] = caller;
}

namespace tessera {
namespace {

using testing::parse_case;
using testing::random_samples;
using testing::TinyCase;

constexpr int kWarmUp = 2;
constexpr int kSteps = 10;

struct Allocations {
  int64_t ours = 0;
  int64_t of_blas = 0;
  std::string where;  // libraries and symbols of ours
};

Allocations recorded_allocations() {
  Allocations result;
  for (size_t i = 0; i < std::min(num_callers.load(), kMaxCallers); ++i) {
    Dl_info info{};
    const bool known = dladdr(callers[i].load(), &info) != 0;
    const std::string library = known && info.dli_fname != nullptr ? info.dli_fname : "?";
    if (library.find("blis") != std::string::npos || library.find("blas") != std::string::npos) {
      ++result.of_blas;
      continue;
    }
    ++result.ours;
    result.where += fmt::format("{} {}\n", library, info.dli_sname ? info.dli_sname : "?");
  }
  return result;
}

// By all threads while kSteps steps run on all ranks at once. The barriers keep what a rank does
// before and after out of it.
Allocations allocations_of_steps(const TinyCase& c, const Executor::Probe& probe = {}) {
  World world(build_step(c.spec, StepKind::kTraining));
  const TensorSource weights = initial_weights(c.spec.model, c.spec.train.seed);
  const SampleSource samples = random_samples(c.spec, "some");
  num_callers = 0;
  std::barrier start(world.size(), []() noexcept { recording = true; });
  std::barrier stop(world.size(), []() noexcept { recording = false; });
  world.run([&](int, Executor& executor) {
    load_weights(executor, world.step(), weights);
    fill_inputs(executor, c.spec, 1, samples);
    const StepParams params = step_params(c.spec, 1);
    for (int i = 0; i < kWarmUp; ++i) executor.run(params);
    executor.set_probe(probe);
    start.arrive_and_wait();
    for (int i = 0; i < kSteps; ++i) executor.run(params);
    stop.arrive_and_wait();
  });
  return recorded_allocations();
}

class AllocationTest : public ::testing::TestWithParam<const char*> {};

// BLIS keeps its packing buffers in pools that grow, by some twenty small blocks, whenever more
// threads than ever before multiply at the same moment; no warm-up can force that moment. Were it
// to allocate in every product, there would be hundreds for every rank.
TEST_P(AllocationTest, AStepAllocatesNothing) {
  if (!TESSERA_COUNTS_MALLOC) GTEST_SKIP() << "malloc cannot be replaced here";
  for (const char* dtype : {" dtype=f64", " dtype=f32", " dtype=bf16"}) {
    SCOPED_TRACE(dtype);
    const TinyCase c = parse_case(GetParam() + std::string(dtype));
    const Allocations seen = allocations_of_steps(c);
    EXPECT_EQ(seen.ours, 0) << seen.where;
    EXPECT_LE(seen.of_blas, 40 * c.spec.parallel.world() * c.spec.train.threads);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, AllocationTest,
    ::testing::Values("dp=1", "family=gpt2 tp=2 sequence_parallel=true",
                      "family=qwen3 tp=2 sliding_window=3 attention_bias=all", "dp=1 threads=3",
                      "dp=4 zero=0", "dp=4 zero=1 loss_chunk=3",
                      "dp=2 tp=2 zero=2 sequence_parallel=true global_batch=8", "tp=4 kv_heads=2",
                      "fsdp=4 zero=3 global_batch=8 prefetch=2",
                      "dp=2 recompute=full dropout=0.2 attention_dropout=0.2",
                      "dp=2 tp=2 threads=2 vocab=37 ffn=21 sequence_parallel=true tied=true",
                      "cp=2", "cp=4 cp_kind=allgather", "cp=2 tp=2 cp_kind=ulysses zero=1"));

TEST(AllocationTest, OneAllocationInAStepIsCounted) {
  if (!TESSERA_COUNTS_MALLOC) GTEST_SKIP() << "malloc cannot be replaced here";
  static std::atomic<void*> kept;  // so that the calls are not optimized away
  const Executor::Probe leaky = [](size_t index, const Instruction&) {
    if (index != 3) return;
    void* block = std::malloc(16);
    kept = block;
    std::free(block);
  };
  EXPECT_EQ(allocations_of_steps(parse_case("dp=4"), leaky).ours, 4 * kSteps);
}

// How much is done to compile all ranks, whatever the machine: blocks of memory that are taken.
int64_t allocations_of_compiling(const std::string& line) {
  const RunSpec spec = parse_case(line).spec;
  num_callers = 0;
  recording = true;
  const std::vector<Program> programs = compile_ranks(build_step(spec, StepKind::kTraining));
  recording = false;
  EXPECT_FALSE(programs.empty());
  return static_cast<int64_t>(num_callers);
}

// Twice as many layers or micro-batches may add twice as much again, not four times.
TEST(AllocationTest, CompilingGrowsWithLayersAndMicroBatchesNoFasterThanThey) {
  if (!TESSERA_COUNTS_MALLOC) GTEST_SKIP() << "malloc cannot be replaced here";
  for (const std::string line :
       {"dp=2 zero=3 layers=N", "tp=2 sequence_parallel=true recompute=full layers=N",
        "pp=2 schedule=zb-h1 layers=N", "dp=2 zero=1 layers=2 global_batch=N",
        "pp=2 layers=2 global_batch=N",
        "pp=2 virtual_stages=2 schedule=interleaved layers=4 "
        "global_batch=N"}) {
    SCOPED_TRACE(line);
    std::array<int64_t, 3> count{};
    for (size_t i = 0; i < count.size(); ++i) {
      std::string sized = line;
      sized.replace(sized.find("=N"), 2, "=" + std::to_string(16 << i));
      count[i] = allocations_of_compiling(sized);
    }
    const int64_t first = count[1] - count[0], second = count[2] - count[1];
    EXPECT_GT(first, 100) << "nothing was counted";
    EXPECT_LE(second, first * 5 / 2) << count[0] << ", " << count[1] << ", " << count[2];
  }
}

}  // namespace
}  // namespace tessera
