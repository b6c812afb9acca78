// A fixed group of ranks that exchange data.
//
// Every rank of the group issues the same collectives in the same order, from one thread at a time.
// Each call carries a fingerprint (op, reduction, dtype, count, root, tag, sequence number); ranks
// that disagree all throw CommError naming both sides before any data is touched. A peer that
// fails, leaves, or does not arrive within the timeout makes every waiter throw CommError naming
// it; the world is dead from then on. Reductions run in order of rank (bf16 and f16 accumulate in
// f32), so results repeat bit for bit, with every algorithm that promises that order (see
// collective/schedule.h).
//
// A blocking call returns when this rank may use its result and reuse its input. `start` returns at
// once; the buffers belong to the collective until its Work is done. Work progresses inside wait()
// and test() of any Work, and inside any blocking call, of the same thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "collective/algorithm.h"
#include "collective/op.h"

namespace tessera {

class CommError : public Error {
 public:
  explicit CommError(const std::string& message) : Error(message) {}
};

// What this rank has sent so far: counted where bytes move, not computed from a formula. A byte
// counts as sent by the rank whose buffer it was read from (or that stored it elsewhere).
struct TrafficCounter {
  int64_t calls = 0;
  int64_t bytes_sent = 0;
};
using TrafficCounters = std::array<TrafficCounter, kNumCollectiveOps>;

// How late one rank of the group arrived in collectives, as seen by this rank.
struct Arrival {
  int world_rank = 0;
  int64_t times_last = 0;
  double p50_us = 0;  // behind the first to arrive
  double p99_us = 0;
};

// One call, in elements of `dtype`. What `count`, `in` and `out` mean for n ranks:
//   broadcast       out[count], the root's goes to all; `in` is not used
//   scatter         in[n * count] on the root -> out[count]
//   gather          in[count] -> out[n * count] on the root
//   reduce          in[count] -> out[count] on the root
//   all_gather      in[count] -> out[n * count]
//   reduce_scatter  in[n * count] -> out[count]
//   all_reduce      in[count] -> out[count]
//   all_to_all      in[n * count] -> out[n * count]
//   all_to_all_v    in: send_counts[r] elements for each rank r, one after the other; out:
//                   receive_counts[r] from each; `count` is not used
//   send, receive   in[count] to `root`; out[count] from `root`
// In place: out == in for all_reduce, reduce, all_to_all; a shard that is this rank's place in the
// full buffer for all_gather, reduce_scatter, gather, scatter. Any other overlap is refused.
// Buffers that a rank does not use (the full buffer off the root) may be null.
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;
  DType dtype = DType::kF32;
  int root = 0;      // rank within the group; the peer of send and receive
  uint32_t tag = 0;  // must agree too; messages name it unless 0
  int64_t count = 0;
  const void* in = nullptr;
  void* out = nullptr;
  std::span<const int64_t> send_counts = {};  // must live until the Work is done
  std::span<const int64_t> receive_counts = {};
  Algorithm algorithm = Algorithm::kAuto;
};

// "all_reduce(f32, 4096) #17"; root, reduction other than sum, and tag other than 0 follow the
// count.
std::string describe(const CollectiveCall& call, uint64_t sequence);

// A collective that has been started. Must not outlive its communicator. Dropping one that is not
// done waits for it (without throwing), because peers may still use its buffers.
class Work {
 public:
  // Implemented by backends. Both throw CommError.
  class Progress {
   public:
    virtual bool test(uint64_t ticket) = 0;
    // False when the time is over; negative: waits as long as the communicator's timeout.
    virtual bool wait(uint64_t ticket, std::chrono::milliseconds time) = 0;

   protected:
    ~Progress() = default;
  };

  Work() = default;  // done
  Work(Progress* progress, uint64_t ticket) : progress_(progress), ticket_(ticket) {}
  Work(Work&& other) noexcept;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  [[nodiscard]] bool test();
  void wait();
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time);

 private:
  Progress* progress_ = nullptr;
  uint64_t ticket_ = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;  // within the group
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual const std::string& name() const = 0;       // "tp", "dp", "world", …
  [[nodiscard]] virtual std::span<const int> members() const = 0;  // world ranks
  [[nodiscard]] virtual std::chrono::milliseconds timeout() const = 0;

  virtual Work start(const CollectiveCall& call) = 0;
  // start and wait; allocates nothing.
  virtual void run(const CollectiveCall& call) = 0;

  // Whether calls can be put on a stream of the GPU, so that nobody has to wait for them.
  [[nodiscard]] virtual bool stream_ordered() const { return false; }
  // Puts the calls on `stream` (a cudaStream_t of this rank's GPU) behind what is there, as one
  // launch: one collective, or messages. Returns once they are there: every rank concerned has made
  // the same call, so a message must not be put there before one that its receiver sends first; two
  // ranks that both send and receive do so in one enqueue each. Buffers belong to the calls until
  // the stream has passed them, counts until this returns. Throws CommError as `run` does. What
  // goes wrong on the GPU later, or does not end within the timeout, aborts the world, and NCCL
  // with it: the stream gets on, and whoever waited for it must look at CommWorld::aborted().
  virtual void enqueue(std::span<const CollectiveCall> calls, void* stream);
  void enqueue(const CollectiveCall& call, void* stream) { enqueue({&call, 1}, stream); }

  // Ranks that give the same color form a group, in order of (key, rank). A collective call. A
  // negative color joins none and returns null.
  virtual std::unique_ptr<Communicator> split(int color, int key, const std::string& name) = 0;

  // Must not be called while a collective is in flight on any rank of the group.
  [[nodiscard]] virtual TrafficCounters counters() const = 0;
  [[nodiscard]] virtual std::vector<Arrival> arrivals() const = 0;

  // Blocking, by name.
  void all_reduce(void* data, int64_t count, DType dtype, uint32_t tag = 0,
                  ReduceOp reduce = ReduceOp::kSum);
  void all_gather(const void* shard, void* full, int64_t count, DType dtype, uint32_t tag = 0);
  void reduce_scatter(const void* full, void* shard, int64_t count, DType dtype, uint32_t tag = 0,
                      ReduceOp reduce = ReduceOp::kSum);
  void broadcast(void* data, int64_t count, DType dtype, int root, uint32_t tag = 0);
  void scatter(const void* full, void* shard, int64_t count, DType dtype, int root,
               uint32_t tag = 0);
  void gather(const void* shard, void* full, int64_t count, DType dtype, int root,
              uint32_t tag = 0);
  void reduce(const void* in, void* out, int64_t count, DType dtype, int root, uint32_t tag = 0,
              ReduceOp reduce = ReduceOp::kSum);
  void all_to_all(const void* in, void* out, int64_t count, DType dtype, uint32_t tag = 0);
  void all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                    std::span<const int64_t> receive_counts, DType dtype, uint32_t tag = 0);
  void send(const void* data, int64_t count, DType dtype, int to, uint32_t tag = 0);
  void receive(void* data, int64_t count, DType dtype, int from, uint32_t tag = 0);
  void barrier(uint32_t tag = 0);
};

// For backends' split: the world ranks that gave the same color, in order of (key, rank); none for
// a negative color. A collective call.
std::vector<int> exchange_colors(Communicator& group, int color, int key);

// Every rank gets every rank's text, in order of rank. For setting up and reporting: allocates.
std::vector<std::string> exchange_texts(Communicator& group, const std::string& mine);

}  // namespace tessera
