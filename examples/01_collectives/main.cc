// Four processes that compute together, with nothing of Tessera but its communication library.
//
// A collective is a call that every rank of a group makes, in the same order; each gives its part
// and gets its share of the result. What the ranks print here is in expected_output.txt.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <string>
#include <vector>

#include "comm/shm/shm_world.h"

using tessera::Communicator;
using tessera::CommWorld;
using tessera::DType;

constexpr int kRanks = 4;

// Every rank gets every rank's line; rank 0 prints them, so that they come out in order.
void say(Communicator& group, const char* title, const std::string& line) {
  const std::vector<std::string> lines = tessera::exchange_texts(group, line);
  if (group.rank() != 0) return;
  fmt::print("{}\n", title);
  for (size_t i = 0; i < lines.size(); ++i) fmt::print("  rank {}: {}\n", i, lines[i]);
}

void be_rank(CommWorld& world) {
  const auto all = world.join_all("all");
  const int rank = all->rank();
  const auto mine = static_cast<float>(rank + 1);

  // Peers read and write this memory directly. Any other memory works too, through a copy.
  const tessera::HostArena arena = world.allocate("numbers", 64 * sizeof(float));
  auto* numbers = reinterpret_cast<float*>(arena.data());

  numbers[0] = mine;
  all->all_reduce(numbers, 1, DType::kF32);
  say(*all, "all_reduce: everyone gets the sum of 1, 2, 3 and 4", fmt::format("{}", numbers[0]));

  float* result = numbers + 16;
  numbers[0] = mine * mine;
  all->all_gather(numbers, result, 1, DType::kF32);
  say(*all, "all_gather: everyone gets one number from each",
      fmt::format("{}", fmt::join(result, result + kRanks, " ")));

  // `start` returns at once. The buffers belong to the collective until its Work is done; what this
  // rank computes in between costs nothing where others are late.
  for (int r = 0; r < kRanks; ++r) numbers[r] = mine * static_cast<float>(r + 1);
  tessera::CollectiveCall call;
  call.op = tessera::CollectiveOp::kReduceScatter;
  call.dtype = DType::kF32;
  call.count = 1;  // numbers that every rank gets
  call.in = numbers;
  call.out = result;
  tessera::Work work = all->start(call);
  const int meanwhile = rank * 100;
  work.wait();
  say(*all, "reduce_scatter: rank r gets the sum of everyone's number r",
      fmt::format("{} (meanwhile {})", result[0], meanwhile));

  // Ranks that give the same color form a group of their own, in order of key.
  const bool odd = rank % 2 == 1;
  const auto half = all->split(/*color=*/odd ? 1 : 0, /*key=*/rank, odd ? "odd" : "even");
  numbers[0] = mine;
  half->all_reduce(numbers, 1, DType::kF32);
  say(*all, "split: even and odd ranks sum among themselves",
      fmt::format("{} ranks: {}", half->name(), numbers[0]));
}

int main() {
  // One piece of memory without a name, which the ranks inherit: a crash leaves nothing behind.
  const auto memory =
      tessera::ShmMemory::create({.ranks = kRanks, .bytes_per_rank = int64_t{4} << 20});
  std::vector<pid_t> pids;
  for (int rank = 0; rank < kRanks; ++rank) {
    pids.push_back(fork());
    if (pids.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // no rank outlives this program
    try {
      be_rank(*tessera::attach_shm_world({.fd = memory.fd(), .rank = rank}));
      return 0;
    } catch (const std::exception& error) {
      // Mismatched calls, a peer that died or does not come: each rank is told who and where.
      fmt::print(stderr, "rank {}: {}\n", rank, error.what());
      return 1;
    }
  }
  int failed = 0;
  for (const pid_t pid : pids) {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) ++failed;
  }
  return failed == 0 ? 0 : 1;
}
