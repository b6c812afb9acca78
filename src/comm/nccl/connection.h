// One NCCL communicator, made, used and ended without a wait that has no bound.
#pragma once

#include <chrono>
#include <memory>

#include "comm/nccl/gpu_library.h"

namespace tessera::nccl {

class Connection {
 public:
  Connection(std::shared_ptr<Gpu> gpu, std::chrono::milliseconds patience);
  // Ends it in peace where nothing is running, else aborts it.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Begins to connect to the ranks that were given the same id. Returns at once.
  void begin(const ncclUniqueId& id, int size, int rank);
  // Whether the last call on the handle (begin, or a collective) is complete on the host side, so
  // that the next may follow. Throws Error with the words of NCCL when something failed, here or
  // on the GPU.
  [[nodiscard]] bool settled() const;
  [[nodiscard]] ncclComm_t handle() const { return *handle_; }
  // Stops its kernels. Waits for NCCL for as long as `patience`, then leaves it behind.
  void abort() noexcept;

 private:
  [[nodiscard]] bool finalized() const;
  void end(ncclResult_t (*how)(ncclComm_t)) noexcept;

  std::shared_ptr<Gpu> gpu_;
  std::chrono::milliseconds patience_;
  std::shared_ptr<ncclComm_t> handle_;  // null: never begun, or ended; NCCL keeps its address
};

}  // namespace tessera::nccl
