// Ranks that share a GPU: what it copies and reduces, and the whole suite with buffers on it, all
// with the bits of the host.
#include <gtest/gtest.h>

#include <numeric>
#include <tuple>

#include "comm/local/local_world.h"
#include "comm/testing/device_suite.h"
#include "comm/testing/local_ranks.h"
#include "tensor/gpu_memory.h"

namespace tessera {
namespace {

using namespace tessera::testing;

#define SKIP_WITHOUT_GPU()                                        \
  if (const auto info = cuda::gpu_info(0); !info.why_not.empty()) \
  GTEST_SKIP() << "no GPU: " << info.why_not

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                            DType::kI32, DType::kI64, DType::kU8};
constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax,
                                    ReduceOp::kMin};
constexpr std::byte kUnset{0x5A};

// A block on the GPU as bytes of the host.
class OnGpu {
 public:
  explicit OnGpu(int64_t size_bytes)
      : memory_(cuda::allocate_on_gpu(0, "test", size_bytes)),
        unset_(static_cast<size_t>(size_bytes), kUnset) {
    cuda::copy_to_gpu(memory_.data(), unset_.data(), size_bytes);
  }
  [[nodiscard]] std::byte* data() const { return memory_.data(); }
  void set(int64_t at, const std::vector<std::byte>& bytes) {
    cuda::copy_to_gpu(data() + at, bytes.data(), static_cast<int64_t>(bytes.size()));
  }
  [[nodiscard]] std::vector<std::byte> get(int64_t at, int64_t size_bytes) const {
    std::vector<std::byte> bytes(static_cast<size_t>(size_bytes));
    cuda::copy_from_gpu(bytes.data(), data() + at, size_bytes);
    return bytes;
  }

 private:
  HostArena memory_;
  std::vector<std::byte> unset_;
};

void finish(DeviceMover& mover) {
  const AbortFlag calm;
  mover.finish(calm, std::chrono::seconds(20));
}

std::vector<std::byte> bytes_of(const Pattern& pattern, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count * size_bytes(pattern.dtype())));
  pattern.fill(bytes.data(), 0, count);
  return bytes;
}

struct ReduceCase {
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kF32;
  ValueKind values = ValueKind::kPlain;
  int num_sources = 1;
  int64_t count = 1;
  int64_t misaligned = 0;  // elements, of every buffer but the first
};

// Into a buffer of its own, into the first source and into the last.
void expect_reduced(DeviceMover& mover, const ReduceCase& c) {
  SCOPED_TRACE(fmt::format("{} of {} x {} {}, {} elements off", name_of(c.op), c.num_sources,
                           c.count, name_of(c.dtype), c.misaligned));
  const int64_t width = size_bytes(c.dtype), bytes = c.count * width;
  const int64_t room = (bytes + 8 * width + 63) / 64 * 64;
  std::vector<Pattern> patterns;
  std::vector<const Pattern*> terms;
  for (int s = 0; s < c.num_sources; ++s) {
    patterns.push_back(Pattern::contribution(c.dtype, c.values, s));
  }
  for (const Pattern& pattern : patterns) terms.push_back(&pattern);
  OnGpu memory(room * (c.num_sources + 1));
  const auto place = [&](int i) { return i * room + (i == 0 ? 0 : c.misaligned * width); };
  std::vector<const void*> sources;
  for (int s = 0; s < c.num_sources; ++s) {
    memory.set(place(s), bytes_of(patterns[static_cast<size_t>(s)], c.count));
    sources.push_back(memory.data() + place(s));
  }
  std::vector<int> written = {c.num_sources};
  if (c.num_sources > 1) written.insert(written.end(), {0, c.num_sources - 1});
  std::vector<void*> targets;
  for (const int i : written) targets.push_back(memory.data() + place(i));
  mover.reduce(c.op, c.dtype, sources, targets, c.count, c.num_sources);
  finish(mover);
  const Pattern expected = Pattern::reduction(c.op, terms);
  for (const int i : written) {
    EXPECT_EQ(expected.first_difference(memory.get(place(i), bytes).data(), 0, c.count), -1) << i;
    const int64_t end = place(i) + bytes;
    for (const std::byte b : memory.get(end, width)) EXPECT_EQ(b, kUnset) << "after target " << i;
  }
  for (int s = 1; s + 1 < c.num_sources; ++s) {
    EXPECT_EQ(memory.get(place(s), bytes), bytes_of(patterns[static_cast<size_t>(s)], c.count));
  }
}

TEST(CudaCollectives, ReductionsHaveTheBitsOfTheHost) {
  SKIP_WITHOUT_GPU();
  const std::unique_ptr<Device> device = make_gpu_device(0);
  const std::unique_ptr<DeviceMover> mover = device->make_mover();
  for (const DType dtype : kTypes) {
    for (const ReduceOp op : kReductions) {
      if (op == ReduceOp::kMean && !is_floating(dtype)) continue;
      for (const int num_sources : {1, 2, 3, 5, 8}) {
        for (const int64_t count : {1, 7, 130, 70001}) {
          const int64_t misaligned = count % 3;
          expect_reduced(*mover, {op, dtype, ValueKind::kPlain, num_sources, count, 0});
          expect_reduced(*mover, {op, dtype, ValueKind::kSpecial, num_sources, count, misaligned});
        }
      }
    }
  }
}

TEST(CudaCollectives, ExchangesInAndOutOfPlace) {
  SKIP_WITHOUT_GPU();
  const std::unique_ptr<Device> device = make_gpu_device(0);
  const std::unique_ptr<DeviceMover> mover = device->make_mover();
  for (const int64_t bytes : {1, 15, 16, 4097, 1000003}) {
    for (const int64_t misaligned : {0, 3}) {
      for (int in_place = 0; in_place < 4; ++in_place) {
        const int64_t room = (bytes + 128) / 64 * 64;
        OnGpu memory(4 * room);
        const auto mine = bytes_of(Pattern::contribution(DType::kU8, ValueKind::kPlain, 1), bytes);
        const auto theirs =
            bytes_of(Pattern::contribution(DType::kU8, ValueKind::kPlain, 2), bytes);
        const int64_t from_me = 0, from_them = room + misaligned;
        const int64_t to_me = (in_place & 1) != 0 ? from_me : 2 * room;
        const int64_t to_them = (in_place & 2) != 0 ? from_them : 3 * room + misaligned;
        memory.set(from_me, mine);
        memory.set(from_them, theirs);
        std::byte* base = memory.data();
        mover->exchange(base + from_me, base + to_them, base + from_them, base + to_me, bytes);
        finish(*mover);
        EXPECT_EQ(memory.get(to_them, bytes), mine) << bytes << " bytes, in place " << in_place;
        EXPECT_EQ(memory.get(to_me, bytes), theirs) << bytes << " bytes, in place " << in_place;
        EXPECT_EQ(memory.get(to_them + bytes, 1)[0], kUnset);
      }
    }
  }
}

TEST(CudaCollectives, WorkInLineRunsInOrder) {
  SKIP_WITHOUT_GPU();
  const std::unique_ptr<Device> device = make_gpu_device(0);
  const std::unique_ptr<DeviceMover> mover = device->make_mover();
  constexpr int64_t kBytes = 1 << 20;
  constexpr int kSteps = 50;
  OnGpu memory((kSteps + 1) * kBytes);
  const auto first = bytes_of(Pattern::contribution(DType::kU8, ValueKind::kPlain, 7), kBytes);
  memory.set(0, first);
  for (int64_t i = 0; i < kSteps; ++i) {
    mover->copy(memory.data() + (i + 1) * kBytes, memory.data() + i * kBytes, kBytes);
  }
  finish(*mover);
  EXPECT_EQ(memory.get(kSteps * kBytes, kBytes), first);
}

TEST(CudaCollectives, TellsItsMemoryFromTheHosts) {
  SKIP_WITHOUT_GPU();
  const std::unique_ptr<Device> device = make_gpu_device(0);
  const OnGpu memory(4096);
  const HostArena pinned = cuda::allocate_pinned("test", 4096);
  float on_stack = 0;
  EXPECT_TRUE(device->reaches(memory.data()));
  EXPECT_TRUE(device->reaches(memory.data() + 4095));
  EXPECT_FALSE(device->reaches(pinned.data()));
  EXPECT_FALSE(device->reaches(&on_stack));
}

TEST(CudaCollectives, OneWorldTakesMemoryOfBoth) {
  SKIP_WITHOUT_GPU();
  constexpr int kRanks = 4;
  constexpr int64_t kCount = (int64_t{8} << 20) + 5;
  LocalWorld world({.size = kRanks, .timeout = std::chrono::seconds(20), .gpu = 0});
  std::vector<Pattern> patterns;
  std::vector<const Pattern*> terms;
  for (int rank = 0; rank < kRanks; ++rank) {
    patterns.push_back(Pattern::contribution(DType::kBF16, ValueKind::kPlain, rank));
  }
  for (const Pattern& pattern : patterns) terms.push_back(&pattern);
  const Pattern expected = Pattern::reduction(ReduceOp::kMean, terms);
  expect_no_errors(run_ranks(kRanks, [&](int rank) {
    const auto comm = world.join("dp", iota_ranks(kRanks), rank);
    const HostArena data = world.endpoint(rank).allocate("data", 2 * kCount);
    const std::vector<std::byte> mine = bytes_of(patterns[static_cast<size_t>(rank)], kCount);
    cuda::copy_to_gpu(data.data(), mine.data(), 2 * kCount);
    comm->all_reduce(data.data(), kCount, DType::kBF16, 0, ReduceOp::kMean);
    std::vector<std::byte> result(mine.size());
    cuda::copy_from_gpu(result.data(), data.data(), 2 * kCount);
    EXPECT_EQ(expected.first_difference(result.data(), 0, kCount), -1);
    int64_t on_host = rank;
    comm->all_reduce(&on_host, 1, DType::kI64);
    EXPECT_EQ(on_host, 6);
  }));
}

TEST(CudaCollectives, RefusesAGpuThatIsNotThere) {
  EXPECT_THROW(LocalWorld({.size = 2, .gpu = 1000}), Error);
}

class CudaSuiteTest : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(CudaSuiteTest, PassesWithTheBitsOfTheHost) {
  SKIP_WITHOUT_GPU();
  const Scenario& scenario = all_scenarios()[static_cast<size_t>(std::get<0>(GetParam()))];
  const int ranks = std::get<1>(GetParam());
  const SharedDevice gpu = {make_gpu_device(0), cuda::copy_to_gpu, cuda::copy_from_gpu};
  const auto outcomes = run_on_device(gpu, scenario, ranks);
  EXPECT_EQ(errors_of(outcomes), "");
  EXPECT_EQ(reports_of(outcomes), reports_of(run_on_host(scenario, ranks)));
}

INSTANTIATE_TEST_SUITE_P(
    OneGpu, CudaSuiteTest,
    ::testing::Combine(::testing::Range(0, static_cast<int>(all_scenarios().size())),
                       ::testing::Values(1, 2, 4)),
    [](const auto& test) {
      return std::string(all_scenarios()[static_cast<size_t>(std::get<0>(test.param))].name) + "_" +
             std::to_string(std::get<1>(test.param));
    });

}  // namespace
}  // namespace tessera
