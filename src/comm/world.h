// One rank's end of a world: where its groups, its memory and its failures come from. One
// implementation per backend: threads (local), processes of one host (shm), MPI, NCCL.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "tensor/arena.h"
#include "tensor/wait.h"

namespace tessera {

class WorkNote;

class CommWorld {
 public:
  virtual ~CommWorld() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual std::string backend() const = 0;  // "local", "shm", "mpi", "nccl"

  // The communicator of this rank in the group of `members` (world ranks, ascending, containing
  // this one). Members find each other by (name, members): every member calls this once for each
  // group, in any order with regard to other groups. Returns at once. Must not outlive the world.
  virtual std::unique_ptr<Communicator> join(const std::string& name,
                                             std::span<const int> members) = 0;
  // The group of all ranks.
  std::unique_ptr<Communicator> join_all(const std::string& name);

  // Zeroed memory that peers reach without a copy. Any other buffer works too, more slowly.
  virtual HostArena allocate(const std::string& name, int64_t size_bytes) = 0;

  // Makes every present and future wait on every rank throw CommError with `reason` (the first one
  // wins). Callable from any thread, never blocks.
  virtual void abort(const std::string& reason) = 0;
  [[nodiscard]] virtual const AbortFlag& abort_flag() const = 0;
  [[nodiscard]] virtual std::string abort_reason() const = 0;
  [[nodiscard]] bool aborted() const { return abort_flag().raised(); }
  // Aborts when a rank has been lost, as far as this backend can tell without waiting. Waits inside
  // collectives do this by themselves; it is for those who wait for something else.
  virtual void look_for_lost_ranks() {}

  // Where this rank notes what a stream of its Program is at, for whoever watches it from outside.
  // Null: nobody does.
  [[nodiscard]] virtual WorkNote* work_note(int /*stream*/) { return nullptr; }

  // Whether whoever started the ranks wants them to end after the step at hand.
  [[nodiscard]] virtual bool stop_requested() const { return false; }
};

}  // namespace tessera
