// Several ranks with the real NCCL on one GPU: NCCL refuses that on one host, so each process says
// that it is a host of its own. Skips where there is no GPU.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "comm/nccl/nccl_world.h"
#include "comm_faults/fault_world.h"

namespace tessera {
namespace {

using namespace tessera::testing;
using std::chrono::milliseconds;

constexpr std::string_view kSkip = "skip: ";

struct Rank {
  NcclWorld& world;
  Communicator& group;
  const RankVoice& voice;
  std::vector<std::unique_ptr<DeviceMemory>> memory = {};

  [[nodiscard]] int rank() const { return world.rank(); }
  [[nodiscard]] int size() const { return world.size(); }
  DeviceMemory& buffer(int64_t size_bytes) {
    return *memory.emplace_back(world.allocate_device("test", size_bytes));
  }
};

struct Setting {
  FaultOptions ranks;
  int check_every = 1;
};

FaultWorld::Body on_one_gpu(const Setting& setting, const std::function<void(Rank&)>& body) {
  return [=](CommWorld& host, const RankVoice& voice) {
    setenv("NCCL_HOSTID", fmt::format("host{}", host.rank()).c_str(), 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    const std::string obstacle = nccl_obstacle();
    if (!obstacle.empty()) return voice.say(std::string(kSkip) + obstacle);
    const auto world = make_nccl_world({.host = host, .check_every = setting.check_every});
    const auto group = world->join_all("world");
    Rank rank{*world, *group, voice};
    body(rank);
    rank.memory.clear();
    voice.say("done");
  };
}

class NcclProcesses : public FaultTest {
 protected:
  void start(const Setting& setting, const std::function<void(Rank&)>& body) {
    world_ = std::make_unique<FaultWorld>(setting.ranks, on_one_gpu(setting, body));
  }
  void TearDown() override {
    world_.reset();
    FaultTest::TearDown();
  }
  std::vector<RankEnd> finish() { return world_->ranks().finish(std::chrono::seconds(60)); }

  std::unique_ptr<FaultWorld> world_;
};

std::string reason_to_skip(const std::vector<RankEnd>& ends) {
  for (const RankEnd& end : ends) {
    for (const RankLine& line : end.lines) {
      if (line.text.starts_with(kSkip)) return line.text;
    }
  }
  return "";
}

void expect_done(const std::vector<RankEnd>& ends) {
  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.error(), "");
    EXPECT_FALSE(end.hung);
    EXPECT_EQ(end.exit_code, 0) << "signal " << end.signal;
  }
}

#define FINISH_OR_SKIP(ends)                  \
  const std::vector<RankEnd> ends = finish(); \
  if (const std::string reason = reason_to_skip(ends); !reason.empty()) GTEST_SKIP() << reason

// Small multiples of six: exact in every type, and so are the sums and means of two or three.
double value(int from, int to, int64_t i) {
  return static_cast<double>((3 * from + 2 * to + i) % 7 * 6);
}

void store(DType dtype, double number, std::byte* to) {
  const auto put = [&](auto element) { std::memcpy(to, &element, sizeof(element)); };
  switch (dtype) {
    case DType::kF64:
      return put(number);
    case DType::kF32:
      return put(static_cast<float>(number));
    case DType::kBF16:
      return put(BFloat16(static_cast<float>(number)));
    case DType::kF16:
      return put(Float16(static_cast<float>(number)));
    case DType::kI32:
      return put(static_cast<int32_t>(number));
    case DType::kI64:
      return put(static_cast<int64_t>(number));
    case DType::kU8:
      return put(static_cast<uint8_t>(number));
  }
}

std::vector<std::byte> encoded(DType dtype, const std::vector<double>& numbers) {
  const auto element = static_cast<size_t>(size_bytes(dtype));
  std::vector<std::byte> bytes(numbers.size() * element);
  for (size_t i = 0; i < numbers.size(); ++i) store(dtype, numbers[i], &bytes[i * element]);
  return bytes;
}

// What `from` has for each rank of `to`, one after the other.
std::vector<double> blocks(const std::vector<int>& from, const std::vector<int>& to,
                           int64_t count) {
  std::vector<double> numbers;
  for (const int f : from) {
    for (const int t : to) {
      for (int64_t i = 0; i < count; ++i) numbers.push_back(value(f, t, i));
    }
  }
  return numbers;
}

double combined(ReduceOp op, int ranks, int to, int64_t i) {
  double result = value(0, to, i);
  for (int from = 1; from < ranks; ++from) {
    const double next = value(from, to, i);
    if (op == ReduceOp::kMax) result = std::max(result, next);
    if (op == ReduceOp::kMin) result = std::min(result, next);
    if (op == ReduceOp::kSum || op == ReduceOp::kMean) result += next;
  }
  return op == ReduceOp::kMean ? result / ranks : result;
}

std::vector<double> reduced(ReduceOp op, int ranks, int to, int64_t count) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(combined(op, ranks, to, i));
  return numbers;
}

// Input and expected output of one rank; empty where it has none.
struct Data {
  std::vector<double> in;
  std::vector<double> out;
};

Data data_of(const CollectiveCall& call, int rank, int ranks) {
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  const bool is_root = rank == call.root;
  const int64_t count = call.count;
  const std::vector<double> none;
  const std::vector<double> mine = blocks({rank}, {0}, count);
  switch (call.op) {
    case CollectiveOp::kBroadcast:
      return {none, blocks({call.root}, {0}, count)};
    case CollectiveOp::kScatter:
      return {is_root ? blocks({rank}, all, count) : none, blocks({call.root}, {rank}, count)};
    case CollectiveOp::kGather:
      return {mine, is_root ? blocks(all, {0}, count) : none};
    case CollectiveOp::kReduce:
      return {mine, is_root ? reduced(call.reduce, ranks, 0, count) : none};
    case CollectiveOp::kAllGather:
      return {mine, blocks(all, {0}, count)};
    case CollectiveOp::kReduceScatter:
      return {blocks({rank}, all, count), reduced(call.reduce, ranks, rank, count)};
    case CollectiveOp::kAllReduce:
      return {mine, reduced(call.reduce, ranks, 0, count)};
    default:
      return {blocks({rank}, all, count), blocks(all, {rank}, count)};
  }
}

void check_call(Rank& self, CollectiveCall call) {
  const Data data = data_of(call, self.rank(), self.size());
  const std::vector<std::byte> in_bytes = encoded(call.dtype, data.in);
  const std::vector<std::byte> expected = encoded(call.dtype, data.out);
  DeviceMemory& in = self.buffer(static_cast<int64_t>(in_bytes.size()));
  DeviceMemory& out = self.buffer(static_cast<int64_t>(expected.size()));
  in.upload(in_bytes.data(), in.size_bytes());
  if (call.op == CollectiveOp::kBroadcast && self.rank() == call.root) {
    out.upload(expected.data(), out.size_bytes());
  }
  const std::vector<int64_t> counts(static_cast<size_t>(self.size()), call.count);
  call.in = in.data();
  call.out = out.data();
  call.send_counts = counts;
  call.receive_counts = counts;
  self.group.run(call);
  std::vector<std::byte> actual(expected.size());
  out.download(actual.data(), out.size_bytes());
  require(actual == expected, "rank {} got wrong numbers from {}", self.rank(), describe(call, 0));
  self.memory.clear();
}

bool has_mean(DType dtype) {
  return dtype != DType::kI32 && dtype != DType::kI64 && dtype != DType::kU8;
}

void check_every_op_and_type(Rank& self) {
  for (int op = 0; op <= static_cast<int>(CollectiveOp::kAllToAllV); ++op) {
    for (int type = 0; type < kNumDTypes; ++type) {
      CollectiveCall call{.op = static_cast<CollectiveOp>(op),
                          .dtype = static_cast<DType>(type),
                          .root = has_root(static_cast<CollectiveOp>(op)) ? 1 : 0};
      for (int reduce = 0; reduce < (reduces(call.op) ? kNumReduceOps : 1); ++reduce) {
        call.reduce = static_cast<ReduceOp>(reduce);
        if (call.reduce == ReduceOp::kMean && !has_mean(call.dtype)) continue;
        for (const int64_t count : {1, 1001, 4097}) {
          call.count = count;
          check_call(self, call);
        }
      }
    }
  }
  self.group.barrier();
}

TEST_F(NcclProcesses, EveryOpAndType) {
  for (const int ranks : {2, 3}) {
    start({.ranks = {.ranks = ranks}}, check_every_op_and_type);
    FINISH_OR_SKIP(ends);
    expect_done(ends);
  }
}

// More than NCCL buffers: a send alone would wait for its receive.
TEST_F(NcclProcesses, EverybodyMaySendFirst) {
  constexpr int64_t kBytes = 64 << 20;
  start({.ranks = {.ranks = 3}}, [](Rank& self) {
    const int next = (self.rank() + 1) % 3;
    const int previous = (self.rank() + 2) % 3;
    const std::vector<char> mine(kBytes, static_cast<char>('a' + self.rank()));
    DeviceMemory& out = self.buffer(kBytes);
    DeviceMemory& in = self.buffer(kBytes);
    out.upload(mine.data(), kBytes);
    Work send = self.group.start({.op = CollectiveOp::kSend,
                                  .dtype = DType::kU8,
                                  .root = next,
                                  .count = kBytes,
                                  .in = out.data()});
    Work receive = self.group.start({.op = CollectiveOp::kReceive,
                                     .dtype = DType::kU8,
                                     .root = previous,
                                     .count = kBytes,
                                     .out = in.data()});
    receive.wait();
    send.wait();
    std::vector<char> got(kBytes);
    in.download(got.data(), kBytes);
    require(got == std::vector<char>(kBytes, static_cast<char>('a' + previous)), "wrong message");
  });
  FINISH_OR_SKIP(ends);
  expect_done(ends);
}

TEST_F(NcclProcesses, InFlightOnTwoGroupsAndInPlace) {
  start({.ranks = {.ranks = 2}}, [](Rank& self) {
    const auto other = self.group.split(0, -self.rank(), "other");
    require(other->rank() == 1 - self.rank(), "the key orders the ranks");
    std::vector<Work> works;
    for (int i = 0; i < 16; ++i) {
      DeviceMemory& data = self.buffer(4000);
      const std::vector<int32_t> numbers(1000, i + self.rank());
      data.upload(numbers.data(), 4000);
      works.push_back((i % 2 == 0 ? self.group : *other)
                          .start({.op = CollectiveOp::kAllReduce,
                                  .dtype = DType::kI32,
                                  .count = 1000,
                                  .in = data.data(),
                                  .out = data.data()}));
    }
    for (Work& work : works) work.wait();
    for (int i = 0; i < 16; ++i) {
      std::vector<int32_t> numbers(1000);
      self.memory[static_cast<size_t>(i)]->download(numbers.data(), 4000);
      require(numbers == std::vector<int32_t>(1000, 2 * i + 1), "wrong sum in call {}", i);
    }
    DeviceMemory& exchanged = self.buffer(8);
    const int32_t mine[] = {10 * self.rank(), 10 * self.rank() + 1};
    exchanged.upload(mine, 8);
    self.group.all_to_all(exchanged.data(), exchanged.data(), 1, DType::kI32);
    int32_t got[2];
    exchanged.download(got, 8);
    require(got[0] == self.rank() && got[1] == 10 + self.rank(), "wrong blocks");
  });
  FINISH_OR_SKIP(ends);
  expect_done(ends);
}

TEST_F(NcclProcesses, MismatchIsReportedOnBoth) {
  start({.ranks = {.ranks = 2}}, [](Rank& self) {
    DeviceMemory& data = self.buffer(400);
    self.group.all_reduce(data.data(), 100, DType::kF32);
    self.group.all_reduce(data.data(), 50 * (self.rank() + 1), DType::kF32);
  });
  FINISH_OR_SKIP(ends);
  for (const RankEnd& end : ends) {
    EXPECT_TRUE(contains(end.error(),
                         "rank 1 called all_reduce(f32, 100) #2 while rank 0 called "
                         "all_reduce(f32, 50) #2"))
        << end.error();
  }
}

// One collective together; then rank 0 alone, without comparing, so that its kernel waits on the
// GPU for a peer that never comes. `rank_1` is what the other does instead.
void leave_rank_0_alone(Rank& self, const std::function<void()>& rank_1) {
  DeviceMemory& data = self.buffer(400);
  self.group.all_reduce(data.data(), 100, DType::kF32);
  if (self.rank() == 1) return rank_1();
  try {
    self.voice.say("alone");
    self.group.all_reduce(data.data(), 100, DType::kF32);
  } catch (const CommError&) {
    // The kernel is stopped, so the GPU does what it is told.
    self.memory.clear();
    const std::vector<char> numbers(100, 'x');
    self.buffer(100).upload(numbers.data(), 100);
    self.voice.say("the GPU is free");
    throw;
  }
}

TEST_F(NcclProcesses, AbortStopsAKernelThatWaits) {
  start({.ranks = {.ranks = 2}, .check_every = 0}, [](Rank& self) {
    leave_rank_0_alone(self, [&] {
      std::this_thread::sleep_for(milliseconds(500));
      self.voice.say("aborting");
      self.world.abort("rank 1 has had enough");
    });
  });
  FINISH_OR_SKIP(ends);
  EXPECT_TRUE(contains(ends[0].error(),
                       "was waiting in all_reduce(f32, 100) #2 when the world was "
                       "aborted: rank 1 has had enough"))
      << ends[0].error();
  EXPECT_LT(ends[0].time_of("the GPU is free") - ends[1].time_of("aborting"), kSoon);
}

TEST_F(NcclProcesses, KilledRankIsNoticedByOneThatWaitsForTheGpu) {
  start({.ranks = {.ranks = 2}, .check_every = 0}, [](Rank& self) {
    leave_rank_0_alone(self, [&] {
      std::this_thread::sleep_for(milliseconds(500));
      raise(SIGKILL);
    });
  });
  FINISH_OR_SKIP(ends);
  EXPECT_TRUE(contains(ends[0].error(), world_->name_of(1))) << ends[0].error();
  EXPECT_FALSE(ends[0].hung);
  EXPECT_LT(ends[0].time_of("the GPU is free") - ends[1].at, kSoon);
}

TEST_F(NcclProcesses, RankThatNeverComesEndsInATimeout) {
  start({.ranks = {.ranks = 2, .timeout = milliseconds(2'000)}, .check_every = 0},
        [](Rank& self) { leave_rank_0_alone(self, [&] { wait_for_abort(self.world); }); });
  FINISH_OR_SKIP(ends);
  EXPECT_TRUE(contains(ends[0].error(),
                       "for the GPU to finish all_reduce(f32, 100) #2: check_every "
                       "is 0, so it was not compared"))
      << ends[0].error();
  EXPECT_EQ(ends[1].error(), "");
}

}  // namespace
}  // namespace tessera
