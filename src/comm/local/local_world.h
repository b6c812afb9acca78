// Ranks that are threads of this process, exchanging data straight between their buffers: in memory
// of the host, or of one GPU that they share.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "comm/device.h"
#include "comm/world.h"
#include "tensor/wait.h"

namespace tessera {

struct LocalWorldOptions {
  int size = 1;                                 // ranks in the world
  std::chrono::milliseconds timeout{60'000};    // longest wait for a peer inside one collective
  std::chrono::milliseconds slow_after{5'000};  // a wait this long is reported once
  int busy_threads = 1;                         // of each rank, that compute while another waits
  // All ranks compute on this GPU: `allocate` gives its memory, and calls take memory of it or of
  // the host, the same on every rank. The input must be ready when a call is made. -1: the host.
  int gpu = -1;
  std::shared_ptr<Device> device = nullptr;                      // instead of a GPU; for tests
  std::function<void(const std::string&)> on_warning = nullptr;  // null: dropped
};

class LocalWorld {
 public:
  explicit LocalWorld(LocalWorldOptions options);
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  [[nodiscard]] int size() const;

  // The end of one rank, which lives as long as the world.
  CommWorld& endpoint(int rank);

  // The communicator of `world_rank` in the group of `members` (world ranks, ascending, containing
  // it). Members find each other by (name, members): every member calls this once, from any thread,
  // in any order. Returns at once. The world must outlive the communicator.
  std::unique_ptr<Communicator> join(const std::string& name, std::span<const int> members,
                                     int world_rank);

  // Makes every present and future wait in every group throw CommError with `reason` (the first one
  // wins). Callable from any thread, never blocks.
  void abort(const std::string& reason);
  [[nodiscard]] bool aborted() const;
  [[nodiscard]] std::string abort_reason() const;
  [[nodiscard]] const AbortFlag& abort_flag() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
