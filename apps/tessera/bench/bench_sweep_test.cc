// The measurement and its check, with ranks that are threads.
#include "bench/bench_sweep.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "bench/bench_pattern.h"
#include "comm/local/local_world.h"

namespace tessera {
namespace {

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter,
                                 CollectiveOp::kAllGather, CollectiveOp::kBroadcast,
                                 CollectiveOp::kAllToAll,  CollectiveOp::kReduce,
                                 CollectiveOp::kGather,    CollectiveOp::kScatter};

void on_ranks(int size, const std::function<void(CommWorld&)>& body) {
  LocalWorld world({.size = size});
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(world.endpoint(rank));
      } catch (const std::exception& error) {
        world.abort(error.what());
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
}

std::vector<BenchCase> every_case(int ranks, DType dtype, ReduceOp reduce, int64_t array_bytes) {
  std::vector<BenchCase> cases;
  for (const CollectiveOp op : kOps) {
    for (const bool in_place : {false, true}) {
      if (!in_place && !has_in_place_choice(op)) continue;
      BenchCase shape;
      shape.op = op;
      shape.reduce = reduce;
      shape.dtype = dtype;
      shape.in_place = in_place;
      shape.ranks = ranks;
      cases.push_back(case_of_size(shape, array_bytes));
    }
  }
  return cases;
}

std::string name_of(const BenchCase& bench) {
  return fmt::format("{} {} {} {}", tessera::name_of(bench.op), tessera::name_of(bench.dtype),
                     tessera::name_of(bench.reduce), bench.in_place ? "in place" : "out of place");
}

TEST(BenchSweepTest, RightResultsPassInEveryTypeAndReduction) {
  constexpr int kRanks = 3;
  std::vector<BenchCase> cases;
  for (int type = 0; type < kNumDTypes; ++type) {
    for (int op = 0; op < kNumReduceOps; ++op) {
      const auto dtype = static_cast<DType>(type);
      const auto reduce = static_cast<ReduceOp>(op);
      const bool integer = dtype == DType::kI32 || dtype == DType::kI64 || dtype == DType::kU8;
      if (integer && reduce == ReduceOp::kMean) continue;
      for (const BenchCase& bench : every_case(kRanks, dtype, reduce, 4321)) {
        cases.push_back(bench);
      }
    }
  }
  std::vector<BenchRow> rows;
  on_ranks(kRanks, [&](CommWorld& world) {
    const auto group = world.join_all("bench");
    const auto arrays = make_host_arrays(world, 8192);
    measure_sweep(*group, *group, *arrays, cases, {.budget_s = 0},
                  [&](const BenchRow& row) { rows.push_back(row); });
  });
  ASSERT_EQ(rows.size(), cases.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].index, i);
    EXPECT_EQ(rows[i].wrong, 0) << name_of(cases[i]);
    EXPECT_EQ(rows[i].samples, 5) << "the fewest, without a budget";
    EXPECT_GT(rows[i].seconds, 0);
    EXPECT_LE(rows[i].fastest_s, rows[i].seconds);
    EXPECT_LE(rows[i].seconds, rows[i].slowest_s);
  }
}

TEST(BenchSweepTest, OneSpoiledElementIsCountedOnce) {
  const std::vector<BenchCase> cases = every_case(2, DType::kF32, ReduceOp::kSum, 1024);
  std::vector<BenchRow> rows;
  on_ranks(2, [&](CommWorld& world) {
    const auto group = world.join_all("bench");
    const auto arrays = make_host_arrays(world, 1024);
    measure_sweep(*group, *group, *arrays, cases, {.budget_s = 0, .corrupt = true},
                  [&](const BenchRow& row) { rows.push_back(row); });
  });
  ASSERT_EQ(rows.size(), cases.size());
  for (const BenchRow& row : rows) EXPECT_EQ(row.wrong, 1) << name_of(cases[row.index]);
}

TEST(BenchSweepTest, TouchedSamplesAreOneCall) {
  const std::vector<BenchCase> cases = {{.op = CollectiveOp::kAllReduce, .ranks = 2, .count = 256}};
  on_ranks(2, [&](CommWorld& world) {
    const auto group = world.join_all("bench");
    const auto arrays = make_host_arrays(world, 1024);
    measure_sweep(*group, *group, *arrays, cases, {.budget_s = 0, .touch = true},
                  [&](const BenchRow& row) { EXPECT_EQ(row.calls_per_sample, 1); });
  });
}

// Stands for a GPU: memory that is filled and read through copies only.
class FakeDeviceMemory final : public DeviceMemory {
 public:
  explicit FakeDeviceMemory(int64_t size_bytes) : bytes_(static_cast<size_t>(size_bytes)) {}
  [[nodiscard]] void* data() const override { return const_cast<std::byte*>(bytes_.data()); }
  [[nodiscard]] int64_t size_bytes() const override { return std::ssize(bytes_); }
  void upload(const void* from, int64_t size_bytes) override {
    std::memcpy(data(), from, static_cast<size_t>(size_bytes));
  }
  void download(void* to, int64_t size_bytes) const override {
    std::memcpy(to, data(), static_cast<size_t>(size_bytes));
  }

 private:
  std::vector<std::byte> bytes_;
};

class FakeDeviceWorld final : public NcclWorld {
 public:
  explicit FakeDeviceWorld(CommWorld& host) : host_(host) {}
  [[nodiscard]] int rank() const override { return host_.rank(); }
  [[nodiscard]] int size() const override { return host_.size(); }
  [[nodiscard]] std::string backend() const override { return "nccl"; }
  std::unique_ptr<Communicator> join(const std::string& name,
                                     std::span<const int> members) override {
    return host_.join(name, members);
  }
  HostArena allocate(const std::string& name, int64_t size_bytes) override {
    return host_.allocate(name, size_bytes);
  }
  void abort(const std::string& reason) override { host_.abort(reason); }
  [[nodiscard]] const AbortFlag& abort_flag() const override { return host_.abort_flag(); }
  [[nodiscard]] std::string abort_reason() const override { return host_.abort_reason(); }
  std::unique_ptr<DeviceMemory> allocate_device(const std::string&, int64_t size_bytes) override {
    return std::make_unique<FakeDeviceMemory>(size_bytes);
  }

 private:
  CommWorld& host_;
};

TEST(BenchSweepTest, ArraysOnADeviceAreCheckedToo) {
  const std::vector<BenchCase> cases = every_case(2, DType::kF32, ReduceOp::kSum, 1024);
  for (const bool corrupt : {false, true}) {
    std::vector<BenchRow> rows;
    on_ranks(2, [&](CommWorld& world) {
      FakeDeviceWorld device_world(world);
      const auto group = device_world.join_all("bench");
      const auto host = world.join_all("bench host");
      const auto arrays = make_device_arrays(device_world, 1024);
      measure_sweep(*group, *host, *arrays, cases,
                    {.budget_s = 0, .touch = true, .corrupt = corrupt},
                    [&](const BenchRow& row) { rows.push_back(row); });
    });
    ASSERT_EQ(rows.size(), cases.size());
    for (const BenchRow& row : rows) {
      EXPECT_EQ(row.wrong, corrupt ? 1 : 0) << name_of(cases[row.index]);
    }
  }
}

// Results that a broken collective could leave behind.
TEST(BenchPatternTest, WhatIsNoResultIsWrong) {
  std::vector<std::byte> in(4096), out(4096);
  const BenchArrays arrays{in.data(), out.data()};
  for (const BenchCase& bench : every_case(2, DType::kF32, ReduceOp::kSum, 4096)) {
    const int64_t result_count =
        bench.op == CollectiveOp::kReduceScatter || bench.op == CollectiveOp::kScatter
            ? bench.count
            : bench.array_bytes() / 4;
    // In place, some of the result is there before the call; a broadcast leaves the root as it is.
    if (bench.in_place || bench.op == CollectiveOp::kBroadcast) continue;
    fill_arrays(bench, 0, arrays, /*seed=*/1);
    EXPECT_EQ(count_wrong(bench, 0, arrays, 1), result_count) << "no call: " << name_of(bench);
    if (bench.op == CollectiveOp::kScatter) continue;  // the root's block is the first of its input
    out = in;
    EXPECT_GT(count_wrong(bench, 0, arrays, 1), 0) << "one's own input: " << name_of(bench);
  }
}

TEST(BenchPatternTest, CasesRanksAndBlocksDiffer) {
  const BenchCase bench{.op = CollectiveOp::kAllGather, .ranks = 2, .count = 512};
  std::vector<std::byte> in(4096), out(4096);
  const BenchArrays arrays{in.data(), out.data()};
  const auto shard_of = [&](int rank, uint64_t seed) {
    fill_arrays(bench, rank, arrays, seed);
    return std::vector<std::byte>(in.begin(), in.begin() + 2048);
  };
  EXPECT_NE(shard_of(0, 1), shard_of(1, 1));
  EXPECT_NE(shard_of(0, 1), shard_of(0, 2));

  const BenchCase exchange{.op = CollectiveOp::kAllToAll, .ranks = 2, .count = 512};
  fill_arrays(exchange, 0, arrays, 1);
  EXPECT_FALSE(std::equal(in.begin(), in.begin() + 2048, in.begin() + 2048));
}

}  // namespace
}  // namespace tessera
