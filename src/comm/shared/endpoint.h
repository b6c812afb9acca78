// One rank's end of a world of shared memory: makes its communicators, and lets calls on one of
// them progress while the rank waits for another.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/shared/domain.h"
#include "comm/world.h"

namespace tessera::shared {

class SharedCommunicator;

class Endpoint final : public CommWorld {
 public:
  struct Options {
    const Domain* domain = nullptr;  // must outlive the endpoint
    int rank = 0;
    std::string backend;
    std::function<HostArena(const std::string& name, int64_t size_bytes)> allocate;
    std::function<void()> on_close;  // may be null
    std::shared_ptr<void> keep;      // what the others live in
  };
  explicit Endpoint(Options options) : options_(std::move(options)) {}
  ~Endpoint() override;

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int size() const override { return domain().ranks(); }
  [[nodiscard]] std::string backend() const override { return options_.backend; }
  std::unique_ptr<Communicator> join(const std::string& name,
                                     std::span<const int> members) override;
  // In any order of members; groups of the same name and members are told apart by `key`.
  std::unique_ptr<Communicator> join_as(const std::string& name, const std::string& key,
                                        std::span<const int> members);
  HostArena allocate(const std::string& name, int64_t size_bytes) override {
    return options_.allocate(name, size_bytes);
  }
  void abort(const std::string& reason) override { raise_abort(domain().block(), reason); }
  [[nodiscard]] const AbortFlag& abort_flag() const override { return domain().block().abort_flag; }
  [[nodiscard]] std::string abort_reason() const override {
    return shared::abort_reason(domain().block());
  }
  void look_for_lost_ranks() override;
  [[nodiscard]] WorkNote* work_note(int stream) override {
    return &domain().block().rank[options_.rank].work[stream];
  }
  [[nodiscard]] bool stop_requested() const override { return domain().block().stop.load() != 0; }

  [[nodiscard]] const Domain& domain() const { return *options_.domain; }

  // Communicators with calls that were started and not waited for.
  void add_active(SharedCommunicator& communicator);
  void remove_active(SharedCommunicator& communicator);
  // True when there were others of this thread.
  bool advance_others(SharedCommunicator& waiting);

 private:
  struct Active {
    SharedCommunicator* communicator;
    std::thread::id thread;
  };

  Options options_;
  std::atomic<int> num_active_{0};
  std::mutex mutex_;
  std::vector<Active> active_;  // guarded by mutex_
};

}  // namespace tessera::shared
