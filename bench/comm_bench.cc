// Time and bandwidth of the local collectives: comm_bench [largest size in MiB, default 64].
//
// S is the whole array in bytes (ranks x shard for all_gather and reduce_scatter), algbw is S /
// time. Every rank is a thread; a cell is the median of several runs, each the mean of a few calls.
// The buffers of the ranks are staggered, as arenas are.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/local/local_world.h"
#include "tensor/arena.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 7;
constexpr int64_t kStaggerBytes = 4096 + 256;

struct Buffers {
  Buffers(int rank, int64_t size_bytes)
      : full_arena("bench full", size_bytes + 16 * kStaggerBytes),
        shard_arena("bench shard", size_bytes + 16 * kStaggerBytes),
        full(full_arena.data() + rank * kStaggerBytes),
        shard(shard_arena.data() + (rank + 8) * kStaggerBytes) {}
  HostArena full_arena;
  HostArena shard_arena;
  std::byte* full;
  std::byte* shard;
};

void call(Communicator& comm, CollectiveOp op, const Buffers& buffers, int64_t count) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return comm.all_reduce(buffers.full, count, DType::kF32, 0);
    case CollectiveOp::kAllGather:
      return comm.all_gather(buffers.shard, buffers.full, count / comm.size(), DType::kF32, 0);
    case CollectiveOp::kReduceScatter:
      return comm.reduce_scatter(buffers.full, buffers.shard, count / comm.size(), DType::kF32, 0);
    default:
      return comm.barrier(0);
  }
}

double seconds_per_call(Communicator& comm, CollectiveOp op, const Buffers& buffers,
                        int64_t size_bytes) {
  const int64_t calls = std::clamp<int64_t>((int64_t{8} << 20) / size_bytes, 1, 200);
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    comm.barrier(0);
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call(comm, op, buffers, size_bytes / 4);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    times.push_back(elapsed.count() / static_cast<double>(calls));
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

void bench_rank(LocalWorld& world, int rank, int64_t largest_bytes) {
  std::vector<int> members(static_cast<size_t>(world.size()));
  std::iota(members.begin(), members.end(), 0);
  const auto comm = world.join("world", members, rank);
  const Buffers buffers(rank, largest_bytes);
  for (int64_t size = 1024; size <= largest_bytes; size *= 4) {
    std::string line = fmt::format("{:>5} {:>9}", world.size(), size);
    for (const CollectiveOp op :
         {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
      const double seconds = seconds_per_call(*comm, op, buffers, size);
      line += fmt::format(" {:>10.1f} {:>6.2f}", seconds * 1e6,
                          static_cast<double>(size) / seconds / 1e9);
    }
    if (rank == 0) fmt::print("{}\n", line);
  }
}

void bench(int num_ranks, int64_t largest_bytes) {
  LocalWorld world({.size = num_ranks});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&world, rank, largest_bytes] { bench_rank(world, rank, largest_bytes); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const int64_t largest_mib = argc > 1 ? std::atoll(argv[1]) : 64;
  if (largest_mib < 1) {
    fmt::print(stderr, "usage: comm_bench [largest size in MiB, at least 1]\n");
    return 2;
  }
  fmt::print("ranks     bytes  all_reduce us GB/s   all_gather us GB/s  reduce_scatter us GB/s\n");
  for (const int num_ranks : {2, 4}) tessera::bench(num_ranks, largest_mib << 20);
  return 0;
}
