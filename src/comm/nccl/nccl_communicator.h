// A group of GPUs. Every call goes through these stages, in order of start, and none of them
// blocks:
//   meet    the ranks compare the call on the host (handshake.h)
//   launch  NCCL queues it on the group's stream; messages that are ready together form one launch,
//           so that two ranks may both send first and receive then
//   run     the GPU works; an event says when it is done
// The first call also connects the ranks: they exchange NCCL's id on the host, and NCCL connects in
// the background.
//
// A call that is enqueued goes to a stream of the caller instead of the group's, and the caller
// gets on once it runs. Nobody waits for its end, so a thread of the rank's world looks after it.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/connection.h"
#include "comm/nccl/gpu_library.h"
#include "comm/nccl/handshake.h"
#include "comm/nccl/nccl_world.h"
#include "comm/nccl/watcher.h"

namespace tessera::nccl {

class NcclCommunicator;

// What the groups of one rank share.
struct RankState {
  RankState(const NcclWorldOptions& world_options, std::shared_ptr<Gpu> rank_gpu)
      : options(world_options), gpu(std::move(rank_gpu)) {}

  NcclWorldOptions options;
  std::shared_ptr<Gpu> gpu;
  std::mutex mutex;  // of the groups and all they have, between the rank's thread and the watcher
  std::vector<NcclCommunicator*> groups;  // alive
  uint64_t num_enqueued = 0;

  // Does what can be done without waiting, in every group: a rank that waits in one must not hold
  // up peers in another. With the mutex held, as the next.
  void progress();
  // From now on the watcher looks after enqueued calls until they end.
  void watch();

 private:
  bool look();

  uint64_t oldest_ = 0;  // enqueued call that has not ended
  std::chrono::steady_clock::time_point oldest_since_;
  std::unique_ptr<Watcher> watcher_;  // after the first enqueued call
};

class NcclCommunicator final : public Communicator, private Work::Progress {
 public:
  // `calls` and `replies` are host groups of the same members, for this group alone.
  NcclCommunicator(RankState& state, std::string name, std::unique_ptr<Communicator> calls,
                   std::unique_ptr<Communicator> replies);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return calls_->rank(); }
  [[nodiscard]] int size() const override { return calls_->size(); }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::span<const int> members() const override { return calls_->members(); }
  [[nodiscard]] std::chrono::milliseconds timeout() const override { return calls_->timeout(); }

  Work start(const CollectiveCall& call) override;
  void run(const CollectiveCall& call) override;
  [[nodiscard]] bool stream_ordered() const override { return true; }
  using Communicator::enqueue;
  void enqueue(std::span<const CollectiveCall> calls, void* stream) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name) override;
  [[nodiscard]] TrafficCounters counters() const override { return traffic_; }
  // When the ranks came to meet on the host.
  [[nodiscard]] std::vector<Arrival> arrivals() const override { return calls_->arrivals(); }

  // Does what can be done without waiting. Throws CommError.
  void progress();
  // Looks after enqueued calls; returns the number of the oldest that has not ended, 0: there is
  // none. A failure ends the world.
  uint64_t watch() noexcept;
  // The same for the oldest, which is the oldest of the rank since `waited`.
  void watch_oldest(std::chrono::milliseconds waited) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  // What the ranks tell each other to connect.
  struct Introduction {
    ncclUniqueId id;  // of rank 0
    char gpu[64];     // "0000:01:00.0 of host7"
  };
  enum class Stage { kMeeting, kLaunching, kRunning };
  struct InFlight {
    CollectiveCall call;
    uint64_t ticket = 0;
    uint64_t sequence = 0;
    Stage stage = Stage::kMeeting;
    Handshake handshake;
    cudaStream_t stream = nullptr;
    uint64_t enqueued = 0;   // its number among those of the rank; 0: somebody waits for its Work
    bool with_next = false;  // one launch with the next one
    void* in_copy = nullptr;
    cudaEvent_t input = nullptr;  // the input is there; of an enqueued call: the stream came to it
    cudaEvent_t done = nullptr;   // from kRunning on
  };
  using Queue = std::list<InFlight>;  // its members stay where they are

  bool test(uint64_t ticket) override;
  bool wait(uint64_t ticket, std::chrono::milliseconds time) override;

  void check_arguments(const CollectiveCall& call);
  void check_on_gpu(const CollectiveCall& call, const void* data, const char* which);
  void check_not_aborted(const CollectiveCall& call);
  InFlight& admit(const CollectiveCall& call);
  uint64_t& counter_of(const CollectiveCall& call);  // of the sequence it belongs to
  void meet(InFlight& entry);

  void introduce();
  [[nodiscard]] bool connected();
  [[nodiscard]] std::string shared_gpus() const;

  void advance();
  void advance_launching();
  void advance_running();
  void launch_ready();
  void launch(Queue::iterator first, Queue::iterator last);
  void issue_group(Queue::iterator first, Queue::iterator last);
  [[nodiscard]] bool launched(uint64_t ticket) const;
  template <typename Reached>
  bool wait_until(const Reached& reached, std::chrono::milliseconds time);

  [[nodiscard]] std::string describe(const InFlight& entry) const;
  [[nodiscard]] std::string describe_next(const CollectiveCall& call);
  [[nodiscard]] int world_rank() const { return members()[static_cast<size_t>(rank())]; }
  [[nodiscard]] InFlight& stalled();  // the call that does not get on
  void look_for_trouble();
  void give_up();
  [[nodiscard]] Queue::iterator oldest_enqueued();
  void stop_watching();
  template <typename Step>
  void guard(const CollectiveCall& call, const Step& step);
  bool somebody_was_lost();
  [[noreturn]] void throw_aborted(const std::string& doing);
  [[noreturn]] void fail(const std::string& text);

  RankState& state_;
  const Gpu& gpu_;
  std::string name_;
  std::unique_ptr<Communicator> calls_;
  std::unique_ptr<Communicator> replies_;
  HostGroups host_groups_;
  cudaStream_t stream_ = nullptr;
  Connection connection_;

  Introduction mine_ = {};
  std::vector<Introduction> introductions_;
  Work introduction_;
  enum class Link { kNone, kIntroducing, kConnecting, kConnected } link_ = Link::kNone;

  Queue queue_;  // oldest first
  Queue spare_;  // done, to be used again
  uint64_t started_ = 0;
  uint64_t completed_ = 0;
  Clock::time_point last_progress_ = Clock::now();
  Clock::time_point last_look_ = Clock::now();
  uint64_t num_collectives_ = 0;
  std::vector<uint64_t> num_sent_, num_received_;  // messages, by peer
  TrafficCounters traffic_;
};

}  // namespace tessera::nccl
