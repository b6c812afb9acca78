#include "bench/bench_case.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

BenchCase f32_case(CollectiveOp op, int ranks, int64_t array_bytes, bool in_place = false) {
  BenchCase shape;
  shape.op = op;
  shape.ranks = ranks;
  shape.in_place = in_place;
  return case_of_size(shape, array_bytes);
}

TEST(BenchCaseTest, SizesAreOfTheFullArray) {
  EXPECT_EQ(f32_case(CollectiveOp::kAllReduce, 4, 1024).count, 256);
  EXPECT_EQ(f32_case(CollectiveOp::kBroadcast, 4, 1024).count, 256);
  EXPECT_EQ(f32_case(CollectiveOp::kReduce, 4, 1024).count, 256);
  for (const CollectiveOp op :
       {CollectiveOp::kReduceScatter, CollectiveOp::kAllGather, CollectiveOp::kAllToAll,
        CollectiveOp::kGather, CollectiveOp::kScatter}) {
    EXPECT_EQ(f32_case(op, 4, 1024).count, 64) << name_of(op);
    EXPECT_EQ(f32_case(op, 4, 1024).array_bytes(), 1024) << name_of(op);
  }
  EXPECT_EQ(f32_case(CollectiveOp::kAllGather, 3, 1024).array_bytes(), 1020) << "rounded down";
  EXPECT_EQ(f32_case(CollectiveOp::kAllGather, 3, 1).count, 1) << "but never to nothing";
}

// The factors of nccl-tests.
TEST(BenchCaseTest, BusFactors) {
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::kAllReduce, 2), 1);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::kAllReduce, 4), 1.5);
  for (const CollectiveOp op :
       {CollectiveOp::kReduceScatter, CollectiveOp::kAllGather, CollectiveOp::kAllToAll,
        CollectiveOp::kGather, CollectiveOp::kScatter}) {
    EXPECT_DOUBLE_EQ(bus_factor(op, 4), 0.75) << name_of(op);
  }
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::kBroadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::kReduce, 4), 1);
}

TEST(BenchCaseTest, InPlaceMeansThisRanksPlace) {
  std::byte in[64], out[64];
  const auto call = [&](CollectiveOp op, bool in_place) {
    return call_of(f32_case(op, 4, 64, in_place), /*rank=*/2, {in, out});
  };
  EXPECT_EQ(call(CollectiveOp::kAllReduce, false).out, out);
  EXPECT_EQ(call(CollectiveOp::kAllReduce, true).out, in);
  EXPECT_EQ(call(CollectiveOp::kAllToAll, true).out, in);
  EXPECT_EQ(call(CollectiveOp::kReduceScatter, false).out, out);
  EXPECT_EQ(call(CollectiveOp::kReduceScatter, true).out, in + 32);
  EXPECT_EQ(call(CollectiveOp::kScatter, true).out, in + 32);
  EXPECT_EQ(call(CollectiveOp::kAllGather, false).in, in);
  EXPECT_EQ(call(CollectiveOp::kAllGather, true).in, out + 32);
  EXPECT_EQ(call(CollectiveOp::kGather, true).in, out + 32);
  EXPECT_EQ(call(CollectiveOp::kBroadcast, false).out, in) << "one buffer";
}

TEST(BenchCaseTest, MemoryThatCannotBeAvoided) {
  const MemoryWork reduced = memory_work(f32_case(CollectiveOp::kAllReduce, 4, 1024, true));
  EXPECT_EQ(reduced.moved_bytes(), 8 * 1024) << "four arrays read and written";
  EXPECT_EQ(reduced.touched_bytes(), 4 * 1024);
  const MemoryWork elsewhere = memory_work(f32_case(CollectiveOp::kAllReduce, 4, 1024));
  EXPECT_EQ(elsewhere.moved_bytes(), 8 * 1024);
  EXPECT_EQ(elsewhere.touched_bytes(), 8 * 1024);
  EXPECT_EQ(memory_work(f32_case(CollectiveOp::kReduceScatter, 4, 1024)).moved_bytes(), 5 * 1024);
  EXPECT_EQ(memory_work(f32_case(CollectiveOp::kAllGather, 4, 1024)).moved_bytes(), 5 * 1024);
  EXPECT_EQ(memory_work(f32_case(CollectiveOp::kBroadcast, 4, 1024)).moved_bytes(), 4 * 1024);
  EXPECT_EQ(memory_work(f32_case(CollectiveOp::kAllToAll, 4, 1024)).moved_bytes(), 8 * 1024);
  EXPECT_EQ(memory_work(f32_case(CollectiveOp::kGather, 4, 1024)).moved_bytes(), 2 * 1024);
}

}  // namespace
}  // namespace tessera
