// A training step allocates nothing: malloc and its relatives are replaced in this program by
// versions that count, on every thread, the BLAS included.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstdlib>

#include "support/tiny.h"
#include "train/session.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define TESSERA_COUNTS_MALLOC 0
#else
#define TESSERA_COUNTS_MALLOC 1
#endif

namespace {

std::atomic<int64_t> allocations{0};

}  // namespace

#if TESSERA_COUNTS_MALLOC
// operator new calls malloc, so these are all.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  ++allocations;
  return __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}
}
#endif

namespace tessera {
namespace {

using testing::parse_case;
using testing::random_samples;
using testing::TinyCase;

constexpr int kSteps = 5;

// Allocations by all threads while kSteps steps run on all ranks at once, after `warm_up` steps.
// The barriers keep what a rank does before and after out of the count of the others.
int64_t allocations_of_steps(const TinyCase& c, int warm_up, const Executor::Probe& probe = {}) {
  World world(build_step(c.spec, StepKind::kTraining));
  const TensorSource weights = initial_weights(c.spec.model, c.spec.train.seed);
  const SampleSource samples = random_samples(c.spec, "some");
  int64_t before = 0, after = 0;
  std::barrier start(world.size(), [&]() noexcept { before = allocations; });
  std::barrier stop(world.size(), [&]() noexcept { after = allocations; });
  world.run([&](int, Executor& executor) {
    load_weights(executor, world.step(), weights);
    fill_inputs(executor, c.spec, 1, samples);
    const StepParams params = step_params(c.spec, 1);
    for (int i = 0; i < warm_up; ++i) executor.run(params);
    executor.set_probe(probe);
    start.arrive_and_wait();
    for (int i = 0; i < kSteps; ++i) executor.run(params);
    stop.arrive_and_wait();
  });
  return after - before;
}

class AllocationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(AllocationTest, AStepAllocatesNothing) {
  if (!TESSERA_COUNTS_MALLOC) GTEST_SKIP() << "malloc cannot be replaced here";
  for (const char* dtype : {" dtype=f64", " dtype=f32", " dtype=bf16"}) {
    EXPECT_EQ(allocations_of_steps(parse_case(GetParam() + std::string(dtype)), 2), 0) << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, AllocationTest,
    ::testing::Values("dp=1", "dp=1 threads=3", "dp=4 zero=0", "dp=4 zero=1 loss_chunk=3",
                      "dp=2 tp=2 zero=2 sequence_parallel=true global_batch=8", "tp=4 kv_heads=2",
                      "fsdp=4 zero=3 global_batch=8 prefetch=2",
                      "dp=2 tp=2 threads=2 vocab=37 ffn=21 sequence_parallel=true tied=true"));

TEST(AllocationTest, OneAllocationInAStepIsCounted) {
  if (!TESSERA_COUNTS_MALLOC) GTEST_SKIP() << "malloc cannot be replaced here";
  static std::atomic<void*> kept;  // static and atomic, so that the calls are not optimized away
  const Executor::Probe leaky = [](size_t index, const Instruction&) {
    if (index == 3) {
      kept = std::malloc(16);
      std::free(kept);
    }
  };
  EXPECT_EQ(allocations_of_steps(parse_case("dp=4"), 2, leaky), 4 * kSteps);
}

}  // namespace
}  // namespace tessera
