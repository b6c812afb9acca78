// Several ranks over a GPU and an NCCL in host memory (fake_gpu.h): who meets whom, what is handed
// to NCCL, and how failures end. nccl_world_test.cc has the real ones.
#include "comm/nccl/nccl_communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <latch>
#include <thread>

#include "comm/local/local_world.h"
#include "comm/nccl/rank_world.h"
#include "comm/testing/fake_gpu.h"
#include "comm/testing/local_ranks.h"

namespace tessera::nccl {
namespace {

using std::chrono::milliseconds;

// One rank of a test.
struct Rank {
  CommWorld& host;
  NcclWorld& world;
  Communicator& group;
  const int rank;
  const int size;

  // Device memory of this fake is host memory.
  std::vector<std::unique_ptr<DeviceMemory>> memory = {};
  float* buffer(const std::vector<float>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
    memory.push_back(world.allocate_device("test", bytes));
    memory.back()->upload(values.data(), bytes);
    return static_cast<float*>(memory.back()->data());
  }
  float* blank(size_t count) { return buffer(std::vector<float>(count, -1.0F)); }
};

class NcclCommunicatorTest : public ::testing::Test {
 protected:
  // What each rank threw.
  std::vector<std::string> run(int size, const std::function<void(Rank&)>& f) {
    LocalWorld local({.size = size, .timeout = timeout_});
    return tessera::testing::run_ranks(size, [&](int rank) {
      CommWorld& host = local.endpoint(rank);
      const std::unique_ptr<NcclWorld> world = make_world(
          {.host = host, .check_every = check_every_, .abort_patience = milliseconds(200)},
          gpu_.library());
      const std::unique_ptr<Communicator> group = world->join_all("world");
      Rank self{host, *world, *group, rank, size};
      f(self);
    });
  }

  testing::FakeGpu gpu_;
  milliseconds timeout_{20'000};
  int check_every_ = 1;
};

std::vector<float> read(const float* data, size_t count) { return {data, data + count}; }

// Element i of what rank r has for rank q.
float value(int r, int q, int i) { return static_cast<float>(100 * r + 10 * q + i); }

std::vector<float> values(int r, int q, int count) {
  std::vector<float> all;
  for (int i = 0; i < count; ++i) all.push_back(value(r, q, i));
  return all;
}

void append(std::vector<float>& to, const std::vector<float>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// What rank r has for everybody, and what it gets from everybody.
std::vector<float> for_all(int r, int size, int count) {
  std::vector<float> all;
  for (int q = 0; q < size; ++q) append(all, values(r, q, count));
  return all;
}
std::vector<float> from_all(int r, int size, int count) {
  std::vector<float> all;
  for (int q = 0; q < size; ++q) append(all, values(q, r, count));
  return all;
}

void expect_all(const std::vector<std::string>& errors, const std::string& text) {
  for (const std::string& error : errors) {
    EXPECT_NE(error.find(text), std::string::npos) << "got: " << error;
  }
}

TEST_F(NcclCommunicatorTest, Reductions) {
  for (const int size : {1, 2, 3}) {
    tessera::testing::expect_no_errors(run(size, [](Rank& self) {
      const int n = self.size;
      const auto mine = static_cast<float>(self.rank);
      float* const data = self.buffer({mine, 2 * mine});
      const float sum = static_cast<float>(n * (n - 1)) / 2;
      const float last = static_cast<float>(n - 1);
      self.group.all_reduce(data, 2, DType::kF32);
      EXPECT_EQ(read(data, 2), (std::vector<float>{sum, 2 * sum}));
      const auto reduced = [&](ReduceOp op) {
        float* const out = self.blank(2);
        const int root = n - 1;
        self.group.reduce(self.buffer({mine, 2 * mine}), self.rank == root ? out : nullptr, 2,
                          DType::kF32, root, 0, op);
        return self.rank == root ? read(out, 1)[0] : -1.0F;
      };
      const bool is_root = self.rank == n - 1;
      EXPECT_EQ(reduced(ReduceOp::kSum), is_root ? sum : -1.0F);
      EXPECT_EQ(reduced(ReduceOp::kMean), is_root ? sum / static_cast<float>(n) : -1.0F);
      EXPECT_EQ(reduced(ReduceOp::kMax), is_root ? last : -1.0F);
      EXPECT_EQ(reduced(ReduceOp::kMin), is_root ? 0.0F : -1.0F);
      float* const shard = self.blank(2);
      self.group.reduce_scatter(self.buffer(for_all(self.rank, n, 2)), shard, 2, DType::kF32);
      EXPECT_EQ(shard[1], 100 * sum + static_cast<float>(n * (10 * self.rank + 1)));
    }));
  }
}

TEST_F(NcclCommunicatorTest, MovesDataToItsPlace) {
  for (const int size : {1, 2, 3, 5}) {
    tessera::testing::expect_no_errors(run(size, [](Rank& self) {
      constexpr int kCount = 3;
      const int n = self.size;
      const int root = n / 2;
      const bool is_root = self.rank == root;
      const auto all = static_cast<size_t>(n) * kCount;

      float* const broadcast = self.buffer(values(self.rank, 0, kCount));
      self.group.broadcast(broadcast, kCount, DType::kF32, root);
      EXPECT_EQ(read(broadcast, kCount), values(root, 0, kCount));

      float* const gathered = self.blank(all);
      self.group.all_gather(self.buffer(values(self.rank, 0, kCount)), gathered, kCount,
                            DType::kF32);
      EXPECT_EQ(read(gathered, all), from_all(0, n, kCount));

      float* const shard = self.blank(kCount);
      float* const full = is_root ? self.buffer(for_all(root, n, kCount)) : nullptr;
      self.group.scatter(full, shard, kCount, DType::kF32, root);
      EXPECT_EQ(read(shard, kCount), values(root, self.rank, kCount));

      float* const collected = is_root ? self.blank(all) : nullptr;
      self.group.gather(self.buffer(values(self.rank, root, kCount)), collected, kCount,
                        DType::kF32, root);
      if (is_root) {
        EXPECT_EQ(read(collected, all), from_all(root, n, kCount));
      }

      float* const exchanged = self.blank(all);
      self.group.all_to_all(self.buffer(for_all(self.rank, n, kCount)), exchanged, kCount,
                            DType::kF32);
      EXPECT_EQ(read(exchanged, all), from_all(self.rank, n, kCount));

      float* const in_place = self.buffer(for_all(self.rank, n, kCount));
      self.group.all_to_all(in_place, in_place, kCount, DType::kF32);
      EXPECT_EQ(read(in_place, all), from_all(self.rank, n, kCount));
      self.group.barrier();
    }));
  }
}

// Rank r sends r + q elements to rank q.
TEST_F(NcclCommunicatorTest, AllToAllWithDifferentCounts) {
  tessera::testing::expect_no_errors(run(3, [](Rank& self) {
    std::vector<int64_t> counts;
    std::vector<float> in, expected;
    for (int q = 0; q < 3; ++q) {
      counts.push_back(self.rank + q);
      append(in, values(self.rank, q, self.rank + q));
      append(expected, values(q, self.rank, self.rank + q));
    }
    float* const out = self.blank(expected.size());
    self.group.all_to_all_v(self.buffer(in), counts, out, counts, DType::kF32);
    EXPECT_EQ(read(out, expected.size()), expected);
    const TrafficCounters traffic = self.group.counters();
    const int64_t sent = 3 * self.rank + 3 - 2 * self.rank;  // without its own
    EXPECT_EQ(traffic[static_cast<size_t>(CollectiveOp::kAllToAllV)].bytes_sent, 4 * sent);
  }));
}

TEST_F(NcclCommunicatorTest, CountsThatDoNotFitAreReported) {
  const std::vector<std::string> errors = run(2, [](Rank& self) {
    const std::vector<int64_t> send = {2, 2};
    const std::vector<int64_t> receive = {2, self.rank == 0 ? 3 : 2};
    self.group.all_to_all_v(self.blank(4), send, self.blank(5), receive, DType::kF32);
  });
  expect_all(errors, "rank 1 sends 2 elements to rank 0, which expects 3, in all_to_all_v(f32) #1");
}

// A ring in which everybody sends first: no send ends before its receive runs.
TEST_F(NcclCommunicatorTest, EverybodyMaySendFirst) {
  for (const int size : {2, 3, 5}) {
    tessera::testing::expect_no_errors(run(size, [](Rank& self) {
      const int next = (self.rank + 1) % self.size;
      const int previous = (self.rank + self.size - 1) % self.size;
      for (int round = 0; round < 20; ++round) {
        float* const in = self.blank(8);
        Work send = self.group.start({.op = CollectiveOp::kSend,
                                      .root = next,
                                      .count = 8,
                                      .in = self.buffer(values(self.rank, round, 8))});
        Work receive = self.group.start(
            {.op = CollectiveOp::kReceive, .root = previous, .count = 8, .out = in});
        send.wait();
        receive.wait();
        EXPECT_EQ(read(in, 8), values(previous, round, 8));
      }
    }));
  }
}

TEST_F(NcclCommunicatorTest, MessagesThatDoNotFitAreReported) {
  const std::vector<std::string> errors = run(3, [](Rank& self) {
    if (self.rank == 1) self.group.send(self.blank(8), 8, DType::kF32, 2);
    if (self.rank == 2) self.group.receive(self.blank(8), 7, DType::kF32, 1);
    if (self.rank == 0) self.group.barrier();  // learns of it through the world
  });
  EXPECT_NE(errors[2].find("rank 1 called send(f32, 8, to 2) #1"), std::string::npos) << errors[2];
  EXPECT_NE(errors[2].find("receive(f32, 7, from 1) #1"), std::string::npos) << errors[2];
  expect_all(errors, "send(f32, 8, to 2) #1");
}

TEST_F(NcclCommunicatorTest, SixteenInFlightOnGroupsInDifferentOrder) {
  tessera::testing::expect_no_errors(run(3, [](Rank& self) {
    const std::unique_ptr<Communicator> other = self.world.join_all("other");
    Communicator* const groups[] = {&self.group, other.get()};
    std::vector<float*> data[2];
    std::vector<Work> works;
    for (int g = 0; g < 2; ++g) {
      const int which = self.rank == 0 ? g : 1 - g;
      for (int i = 0; i < 8; ++i) {
        data[which].push_back(self.buffer({static_cast<float>(which), static_cast<float>(i)}));
        works.push_back(groups[which]->start({.op = CollectiveOp::kAllReduce,
                                              .count = 2,
                                              .in = data[which].back(),
                                              .out = data[which].back()}));
      }
    }
    for (Work& work : works) work.wait();
    for (int which = 0; which < 2; ++which) {
      for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(read(data[which][static_cast<size_t>(i)], 2),
                  (std::vector<float>{3 * static_cast<float>(which), 3 * static_cast<float>(i)}));
      }
    }
  }));
}

TEST_F(NcclCommunicatorTest, SplitMakesGroupsInOrderOfKey) {
  tessera::testing::expect_no_errors(run(4, [](Rank& self) {
    const int color = self.rank == 3 ? -1 : 0;
    const std::unique_ptr<Communicator> part = self.group.split(color, -self.rank, "part");
    ASSERT_EQ(part == nullptr, self.rank == 3);
    if (part == nullptr) return;
    EXPECT_EQ(part->rank(), 2 - self.rank);
    float* const all = self.blank(3);
    part->all_gather(self.buffer({static_cast<float>(self.rank)}), all, 1, DType::kF32);
    EXPECT_EQ(read(all, 3), (std::vector<float>{2, 1, 0}));
  }));
}

TEST_F(NcclCommunicatorTest, MismatchIsReportedOnEveryRankBeforeNcclHearsOfIt) {
  const std::vector<std::string> errors = run(3, [](Rank& self) {
    float* const data = self.blank(12);
    self.group.all_reduce(data, 4, DType::kF32);
    if (self.rank == 2) {
      self.group.broadcast(data, 4, DType::kF32, 1);
    } else {
      self.group.all_reduce(data, 4, DType::kF32);
    }
  });
  expect_all(
      errors,
      "rank 2 called broadcast(f32, 4, root 1) #2 while rank 0 called all_reduce(f32, 4) #2");
  EXPECT_EQ(gpu_.num_launches, 3);  // of the first call
}

TEST_F(NcclCommunicatorTest, ComparesOnlyEveryThirdCallWhenAsked) {
  check_every_ = 3;
  const std::vector<std::string> errors = run(2, [](Rank& self) {
    float* const data = self.blank(4);
    for (uint32_t call = 1; call <= 3; ++call) {
      self.group.all_reduce(data, 4, DType::kF32, call * static_cast<uint32_t>(self.rank));
    }
  });
  expect_all(errors, "rank 1 called all_reduce(f32, 4, tag 3) #3 while rank 0 called");
}

TEST_F(NcclCommunicatorTest, MissingRankIsNamed) {
  timeout_ = milliseconds(100);
  std::vector<std::string> errors = run(3, [](Rank& self) {
    float* const data = self.blank(4);
    self.group.all_reduce(data, 4, DType::kF32);
    if (self.rank == 1) {
      while (!self.host.aborted()) std::this_thread::sleep_for(milliseconds(1));
    } else {
      self.group.all_reduce(data, 4, DType::kF32);
    }
  });
  EXPECT_EQ(errors[1], "");
  errors.erase(errors.begin() + 1);
  expect_all(errors, "rank 1");
}

TEST_F(NcclCommunicatorTest, GpuThatDoesNotFinishEndsInATimeout) {
  timeout_ = milliseconds(100);
  gpu_.hangs = true;
  expect_all(run(2, [](Rank& self) { self.group.all_reduce(self.blank(4), 4, DType::kF32); }),
             "s for the GPU to finish all_reduce(f32, 4) #1: every rank called it");
  EXPECT_EQ(gpu_.num_aborted, 2);
}

TEST_F(NcclCommunicatorTest, AbortEndsAWaitForTheGpu) {
  gpu_.hangs = true;
  const std::vector<std::string> errors = run(2, [](Rank& self) {
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(50));
      if (self.rank == 1) self.world.abort("somebody pulled the plug");
    });
    try {
      self.group.all_reduce(self.blank(4), 4, DType::kF32);
    } catch (...) {
      other.join();
      throw;
    }
    other.join();
  });
  expect_all(errors, "was waiting in all_reduce(f32, 4) #1 when the world was aborted: somebody");
  EXPECT_EQ(gpu_.num_aborted, 2);
}

TEST_F(NcclCommunicatorTest, AbortThatHangsIsLeftBehindWithItsMemory) {
  gpu_.hangs = true;
  gpu_.abort_hangs = true;
  timeout_ = milliseconds(50);
  expect_all(run(1, [](Rank& self) { self.group.all_reduce(self.blank(4), 4, DType::kF32); }),
             "for the GPU to finish");
  EXPECT_EQ(gpu_.num_freed, 0);
  gpu_.abort_hangs = false;
  // The thread that was left behind must not outlive the fake.
  while (gpu_.num_abort_returned < 1) std::this_thread::sleep_for(milliseconds(1));
}

TEST_F(NcclCommunicatorTest, FailureInsideNcclIsReportedInItsWords) {
  gpu_.hangs = true;
  const std::vector<std::string> errors = run(2, [&](Rank& self) {
    Work work = self.group.start(
        {.op = CollectiveOp::kAllReduce, .count = 4, .in = self.blank(4), .out = self.blank(4)});
    while (gpu_.num_launches < 2) EXPECT_FALSE(work.test());
    gpu_.failure = ncclRemoteError;
    work.wait();
  });
  expect_all(errors, "NCCL says: remote process exited; the last words");
}

TEST_F(NcclCommunicatorTest, RanksOnOneGpuAreNamed) {
  gpu_.refuses_ranks = true;
  expect_all(run(2, [](Rank& self) { self.group.all_reduce(self.blank(4), 4, DType::kF32); }),
             "rank 0 and rank 1 use the same GPU (0000:01:00.0 of ");
}

TEST_F(NcclCommunicatorTest, RefusesWhatCannotBeMeant) {
  const auto error_of = [&](const std::function<void(Rank&, float*)>& call) {
    return run(1, [&](Rank& self) { call(self, self.blank(8)); })[0];
  };
  const auto expect = [&](const std::string& text, const std::function<void(Rank&, float*)>& call) {
    const std::string error = error_of(call);
    EXPECT_NE(error.find(text), std::string::npos) << "got: " << error;
  };
  expect("broadcast(f32, 4, root 1) #1: ranks are 0 to 0",
         [](Rank& self, float* data) { self.group.broadcast(data, 4, DType::kF32, 1); });
  expect("send(f32, 4, to 0) #1: that is the caller itself",
         [](Rank& self, float* data) { self.group.send(data, 4, DType::kF32, 0); });
  expect("count is -1",
         [](Rank& self, float* data) { self.group.all_reduce(data, -1, DType::kF32); });
  expect("the input is null",
         [](Rank& self, float* data) { self.group.all_gather(nullptr, data, 4, DType::kF32); });
  expect("8 bytes after the input and overlaps it",
         [](Rank& self, float* data) { self.group.all_gather(data, data + 2, 4, DType::kF32); });
  expect("0 counts for 1 ranks",
         [](Rank& self, float* data) { self.group.all_to_all_v(data, {}, data, {}, DType::kF32); });
}

TEST_F(NcclCommunicatorTest, EndsNcclInPeaceWhenNothingFailed) {
  tessera::testing::expect_no_errors(run(2, [](Rank& self) {
    float* const data = self.blank(64);
    self.group.all_reduce(data, 64, DType::kF32);
    const auto traffic = self.group.counters()[static_cast<size_t>(CollectiveOp::kAllReduce)];
    EXPECT_EQ(traffic.calls, 1);
    EXPECT_EQ(traffic.bytes_sent, 256);
  }));
  EXPECT_EQ(gpu_.num_destroyed, 2);
  EXPECT_EQ(gpu_.num_aborted, 0);
  EXPECT_EQ(gpu_.num_freed, 2);
}

// A stream of one rank.
class TestStream {
 public:
  explicit TestStream(testing::FakeGpu& gpu) : library_(gpu.library()) {
    (void)library_->cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    (void)library_->cudaEventCreateWithFlags(&end_, cudaEventDisableTiming);
  }
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void wait() {
    (void)library_->cudaEventRecord(end_, stream_);
    while (library_->cudaEventQuery(end_) != cudaSuccess) std::this_thread::yield();
  }

 private:
  std::shared_ptr<const GpuLibrary> library_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

void await_abort(const Rank& self) {
  while (!self.host.aborted()) std::this_thread::sleep_for(milliseconds(1));
}

CollectiveCall all_reduce_of(float* data, int64_t count) {
  return {.op = CollectiveOp::kAllReduce, .count = count, .in = data, .out = data};
}

TEST_F(NcclCommunicatorTest, EnqueuedCallsRunInTheOrderOfTheirStream) {
  for (const int size : {1, 2, 3}) {
    tessera::testing::expect_no_errors(run(size, [&](Rank& self) {
      TestStream stream(gpu_);
      ASSERT_TRUE(self.group.stream_ordered());
      const std::unique_ptr<Communicator> other = self.world.join_all("other");
      float* const data = self.buffer({static_cast<float>(self.rank), 1});
      float* const all = self.blank(2 * static_cast<size_t>(size));
      std::vector<float> expected;
      for (int round = 0; round < 20; ++round) {
        self.group.enqueue(all_reduce_of(data, 2), stream.get());
        other->enqueue({.op = CollectiveOp::kAllGather, .count = 2, .in = data, .out = all},
                       stream.get());
      }
      stream.wait();
      const auto n = static_cast<float>(size);
      const float sum = n * (n - 1) / 2;
      EXPECT_EQ(data[0], sum * std::pow(n, 19.0F));
      EXPECT_EQ(data[1], std::pow(n, 20.0F));
      for (int rank = 0; rank < size; ++rank) EXPECT_EQ(all[2 * rank + 1], data[1]);
      EXPECT_EQ(self.group.counters()[static_cast<size_t>(CollectiveOp::kAllReduce)].calls, 20);
      self.group.all_reduce(data, 2, DType::kF32);  // waiting for a call still works
    }));
  }
  EXPECT_EQ(gpu_.num_aborted, 0);
  EXPECT_EQ(gpu_.num_destroyed, 12);
}

TEST_F(NcclCommunicatorTest, EnqueuedMessagesGoBothWaysInOneLaunch) {
  for (const int size : {2, 3}) {
    tessera::testing::expect_no_errors(run(size, [&](Rank& self) {
      TestStream stream(gpu_);
      const int next = (self.rank + 1) % self.size;
      const int previous = (self.rank + self.size - 1) % self.size;
      for (int round = 0; round < 10; ++round) {
        float* const in = self.blank(8);
        const CollectiveCall calls[] = {
            {.op = CollectiveOp::kSend,
             .root = next,
             .count = 8,
             .in = self.buffer(values(self.rank, round, 8))},
            {.op = CollectiveOp::kReceive, .root = previous, .count = 8, .out = in}};
        self.group.enqueue(calls, stream.get());
        stream.wait();
        EXPECT_EQ(read(in, 8), values(previous, round, 8));
      }
    }));
  }
}

TEST_F(NcclCommunicatorTest, EnqueueRefusesWhatItCannotLaunchAsOne) {
  expect_all(run(1,
                 [&](Rank& self) {
                   TestStream stream(gpu_);
                   const CollectiveCall calls[] = {all_reduce_of(self.blank(4), 4),
                                                   all_reduce_of(self.blank(4), 4)};
                   self.group.enqueue(calls, stream.get());
                 }),
             "one launch has one collective, or messages alone");
}

TEST_F(NcclCommunicatorTest, EnqueuedCallsMeetOnTheHostFirst) {
  const std::vector<std::string> errors = run(3, [&](Rank& self) {
    TestStream stream(gpu_);
    float* const data = self.blank(4);
    self.group.enqueue(all_reduce_of(data, self.rank == 1 ? 3 : 4), stream.get());
  });
  expect_all(errors, "rank 1 called all_reduce(f32, 3) #1 while rank 0 called all_reduce(f32, 4)");
  EXPECT_EQ(gpu_.num_launches, 0);
}

TEST_F(NcclCommunicatorTest, RankThatDoesNotEnqueueIsNamed) {
  timeout_ = milliseconds(100);
  const std::vector<std::string> errors = run(2, [&](Rank& self) {
    TestStream stream(gpu_);
    if (self.rank == 0) self.group.enqueue(all_reduce_of(self.blank(4), 4), stream.get());
    if (self.rank == 1) await_abort(self);
  });
  EXPECT_NE(errors[0].find("rank 1"), std::string::npos) << errors[0];
}

TEST_F(NcclCommunicatorTest, WatcherNamesTheRankWhoseStreamIsLate) {
  timeout_ = milliseconds(200);
  const std::vector<std::string> errors = run(2, [&](Rank& self) {
    TestStream stream(gpu_);
    if (self.rank == 1) gpu_.block(stream.get());
    self.group.enqueue(all_reduce_of(self.blank(4), 4), stream.get());
    await_abort(self);
    self.group.enqueue(all_reduce_of(self.blank(4), 4), stream.get());
  });
  expect_all(errors, "rank 1 is late: its GPU has not come to all_reduce(f32, 4) #1 in 0.2");
  expect_all(errors, "after the world was aborted");
  EXPECT_EQ(gpu_.num_aborted, 2);
}

TEST_F(NcclCommunicatorTest, WatcherEndsACallThatDoesNotFinish) {
  timeout_ = milliseconds(100);
  gpu_.hangs = true;
  std::string reason;
  tessera::testing::expect_no_errors(run(2, [&](Rank& self) {
    TestStream stream(gpu_);
    self.group.enqueue(all_reduce_of(self.blank(4), 4), stream.get());
    await_abort(self);
    if (self.rank == 0) reason = self.host.abort_reason();
  }));
  EXPECT_NE(reason.find("for the GPU to finish all_reduce(f32, 4) #1: its stream came to it"),
            std::string::npos)
      << reason;
  EXPECT_EQ(gpu_.num_aborted, 2);
}

TEST_F(NcclCommunicatorTest, WatcherReportsAFailureInsideNccl) {
  gpu_.hangs = true;
  const std::vector<std::string> errors = run(2, [&](Rank& self) {
    TestStream stream(gpu_);
    self.group.enqueue(all_reduce_of(self.blank(4), 4), stream.get());
    if (self.rank == 0) gpu_.failure = ncclRemoteError;
    await_abort(self);
    self.group.barrier();
  });
  expect_all(errors, "NCCL says: remote process exited; the last words");
}

TEST_F(NcclCommunicatorTest, AbortFreesAStreamThatNobodyWaitsFor) {
  gpu_.hangs = true;
  std::latch both_returned(2);
  tessera::testing::expect_no_errors(run(2, [&](Rank& self) {
    TestStream stream(gpu_);
    self.group.enqueue(all_reduce_of(self.blank(4), 4), stream.get());
    both_returned.arrive_and_wait();
    if (self.rank == 1) self.world.abort("somebody pulled the plug");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (gpu_.num_aborted < 2 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }));
  EXPECT_EQ(gpu_.num_aborted, 2);
}

}  // namespace
}  // namespace tessera::nccl
