// With the real libraries and a real GPU; skips where there is none. A world of one rank exercises
// every op and type; nccl_communicator_test.cc has several ranks, without a GPU.
#include "comm/nccl/nccl_world.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/local/local_world.h"
#include "comm/nccl/gpu_library.h"

namespace tessera {
namespace {

class NcclWorldTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string obstacle = nccl_obstacle();
    if (!obstacle.empty()) GTEST_SKIP() << "no NCCL here: " << obstacle;
    world_ = make_nccl_world({.host = local_.endpoint(0)});
  }

  // Bytes that are finite numbers in every element type.
  std::unique_ptr<DeviceMemory> filled(int64_t size_bytes, int seed) {
    std::unique_ptr<DeviceMemory> memory = world_->allocate_device("test", size_bytes);
    const std::vector<uint8_t> bytes = pattern(size_bytes, seed);
    memory->upload(bytes.data(), size_bytes);
    return memory;
  }
  static std::vector<uint8_t> pattern(int64_t size_bytes, int seed) {
    std::vector<uint8_t> bytes(static_cast<size_t>(size_bytes));
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<uint8_t>((i * 7 + static_cast<size_t>(seed)) % 63);
    }
    return bytes;
  }
  static std::vector<uint8_t> contents(const DeviceMemory& memory) {
    std::vector<uint8_t> bytes(static_cast<size_t>(memory.size_bytes()));
    memory.download(bytes.data(), memory.size_bytes());
    return bytes;
  }

  LocalWorld local_{{.size = 1}};
  std::unique_ptr<NcclWorld> world_;
};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const CommError& error) {
    return error.what();
  }
  return "";
}

constexpr CollectiveOp kOpsWithData[] = {
    CollectiveOp::kBroadcast, CollectiveOp::kScatter,   CollectiveOp::kGather,
    CollectiveOp::kReduce,    CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
    CollectiveOp::kAllReduce, CollectiveOp::kAllToAll,  CollectiveOp::kAllToAllV};

bool is_integer(DType dtype) {
  return dtype == DType::kI32 || dtype == DType::kI64 || dtype == DType::kU8;
}

// Alone, every op gives back its input: all 4097 elements of a mean too, of which NCCL
// before 2.29.7 forgets the last.
TEST_F(NcclWorldTest, EveryOpAndTypeWithOneRank) {
  const std::unique_ptr<Communicator> group = world_->join_all("world");
  for (const int64_t count : {0, 1, 7, 4097}) {
    const std::vector<int64_t> counts = {count};
    for (int type = 0; type < kNumDTypes; ++type) {
      const auto dtype = static_cast<DType>(type);
      const int64_t bytes = count * size_bytes(dtype);
      for (const CollectiveOp op : kOpsWithData) {
        for (int reduce = 0; reduce < (reduces(op) ? kNumReduceOps : 1); ++reduce) {
          if (static_cast<ReduceOp>(reduce) == ReduceOp::kMean && is_integer(dtype)) continue;
          const std::unique_ptr<DeviceMemory> in = filled(bytes, 1);
          const std::unique_ptr<DeviceMemory> out = filled(bytes, 2);
          group->run({.op = op,
                      .reduce = static_cast<ReduceOp>(reduce),
                      .dtype = dtype,
                      .count = count,
                      .in = in->data(),
                      .out = out->data(),
                      .send_counts = counts,
                      .receive_counts = counts});
          const int expected = op == CollectiveOp::kBroadcast ? 2 : 1;
          ASSERT_EQ(contents(*out), pattern(bytes, expected))
              << name_of(op) << " " << name_of(dtype) << " " << count << " " << reduce;
          ASSERT_EQ(contents(*in), pattern(bytes, 1)) << name_of(op);
        }
      }
    }
  }
  group->barrier();
}

TEST_F(NcclWorldTest, InPlace) {
  const std::unique_ptr<Communicator> group = world_->join_all("world");
  for (const CollectiveOp op : kOpsWithData) {
    if (op == CollectiveOp::kAllToAllV) continue;
    const std::unique_ptr<DeviceMemory> data = filled(400, 3);
    group->run({.op = op, .count = 100, .in = data->data(), .out = data->data()});
    EXPECT_EQ(contents(*data), pattern(400, 3)) << name_of(op);
  }
}

TEST_F(NcclWorldTest, SixteenInFlightOnTwoGroups) {
  constexpr int64_t kBytes = 1 << 20;
  const std::unique_ptr<Communicator> groups[] = {world_->join_all("a"), world_->join_all("b")};
  std::vector<std::unique_ptr<DeviceMemory>> in, out;
  std::vector<Work> works;
  for (int i = 0; i < 16; ++i) {
    in.push_back(filled(kBytes, i));
    out.push_back(world_->allocate_device("out", kBytes));
    works.push_back(groups[i % 2]->start({.op = CollectiveOp::kAllReduce,
                                          .count = kBytes / 4,
                                          .in = in.back()->data(),
                                          .out = out.back()->data()}));
  }
  while (!works.back().test()) std::this_thread::yield();
  for (int i = 15; i >= 0; --i) works[static_cast<size_t>(i)].wait();
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(contents(*out[static_cast<size_t>(i)]), pattern(kBytes, i)) << i;
  }
  EXPECT_EQ(groups[0]->counters()[static_cast<size_t>(CollectiveOp::kAllReduce)].calls, 8);
}

// Nobody waits for a call before the end of the stream.
TEST_F(NcclWorldTest, GpuRunsEnqueuedCallsInTheOrderOfTheirStream) {
  constexpr int64_t kBytes = 1 << 20;
  constexpr int kCalls = 64;
  const std::shared_ptr<const nccl::GpuLibrary> library = nccl::load_gpu_library();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(library->cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    const std::unique_ptr<Communicator> groups[] = {world_->join_all("a"), world_->join_all("b")};
    ASSERT_TRUE(groups[0]->stream_ordered());
    std::vector<std::unique_ptr<DeviceMemory>> memory;
    memory.push_back(filled(kBytes, 5));
    for (int i = 0; i < kCalls; ++i) {
      memory.push_back(world_->allocate_device("out", kBytes));
      groups[i % 2]->enqueue(
          {.op = i % 3 == 0 ? CollectiveOp::kAllReduce : CollectiveOp::kAllGather,
           .count = kBytes / 4,
           .in = memory[static_cast<size_t>(i)]->data(),
           .out = memory.back()->data()},
          stream);
    }
    EXPECT_EQ(library->cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_FALSE(world_->aborted()) << world_->abort_reason();
    EXPECT_EQ(contents(*memory.back()), pattern(kBytes, 5));
    groups[0]->all_reduce(memory.back()->data(), kBytes / 4, DType::kF32);
    EXPECT_EQ(contents(*memory.back()), pattern(kBytes, 5));
  }
  EXPECT_EQ(library->cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(NcclWorldTest, DeviceMemoryIsZeroedAndHostMemoryIsRefused) {
  EXPECT_EQ(contents(*world_->allocate_device("zeros", 1000)), std::vector<uint8_t>(1000));
  EXPECT_THROW((void)world_->allocate("arena", 1000), Error);
  const std::unique_ptr<Communicator> group = world_->join_all("world");
  std::vector<float> on_host(10);
  const std::string error = error_of([&] { group->all_reduce(on_host.data(), 10, DType::kF32); });
  EXPECT_NE(error.find("the input is in host memory; it must be memory of GPU 0"),
            std::string::npos)
      << error;
}

TEST_F(NcclWorldTest, RefusesMoreMemoryThanThereIs) {
  try {
    (void)world_->allocate_device("everything", int64_t{1} << 50);
    FAIL() << "a petabyte";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("everything: allocating"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("out of memory"), std::string::npos) << error.what();
  }
  EXPECT_NE(filled(100, 1), nullptr);  // the refusal leaves the GPU usable
}

TEST_F(NcclWorldTest, AbortEndsTheNextCallWithItsReason) {
  const std::unique_ptr<Communicator> group = world_->join_all("world");
  const std::unique_ptr<DeviceMemory> data = filled(400, 1);
  group->all_reduce(data->data(), 100, DType::kF32);
  std::thread([&] { world_->abort("the test says so"); }).join();
  EXPECT_TRUE(world_->aborted());
  const std::string error = error_of([&] { group->all_reduce(data->data(), 100, DType::kF32); });
  EXPECT_NE(error.find("all_reduce(f32, 100) #2 after the world was aborted: the test says so"),
            std::string::npos)
      << error;
}

TEST_F(NcclWorldTest, TwoRanksOnOneGpuAreToldSo) {
  LocalWorld two({.size = 2, .timeout = std::chrono::seconds(30)});
  std::vector<std::string> errors(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      CommWorld& host = two.endpoint(rank);
      const std::unique_ptr<NcclWorld> world = make_nccl_world({.host = host});
      const std::unique_ptr<DeviceMemory> data = world->allocate_device("data", 400);
      const std::unique_ptr<Communicator> group = world->join_all("world");
      errors[static_cast<size_t>(rank)] =
          error_of([&] { group->all_reduce(data->data(), 100, DType::kF32); });
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("rank 0 and rank 1 use the same GPU"), std::string::npos) << error;
    EXPECT_NE(error.find("NCCL wants one for each rank"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace tessera
