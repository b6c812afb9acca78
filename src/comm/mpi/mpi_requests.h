// Everything that MPI has under way for one rank, in one array: a single call of MPI per poll
// moves all of it along and says what has ended. Not thread-safe.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

enum class MpiTraffic : uint8_t {
  kControlIn,
  kControlOut,
  kAbortIn,
  kAbortOut,
  kDataIn,
  kDataOut,
  kEndIn,
  kEndOut,
};
constexpr int kNumMpiTraffics = 8;

// What a request is for, and how it ended.
struct MpiEnded {
  MpiTraffic traffic = MpiTraffic::kDataIn;
  int owner = 0;   // as given to add()
  int source = 0;  // of what came in
  int bytes = 0;   // that came in
  int error = MPI_SUCCESS;
};

class MpiRequests {
 public:
  void add(MPI_Request request, MpiTraffic traffic, int owner);
  // How many are under way.
  [[nodiscard]] int pending(MpiTraffic traffic) const {
    return pending_[static_cast<int>(traffic)];
  }

  // Valid until the next call. Throws CommError when MPI itself fails.
  std::span<const MpiEnded> poll();

  // Takes back receives to which nothing has come: all that is left of a world that ends in peace.
  void cancel_receives();

 private:
  struct Slot {
    MpiTraffic traffic = MpiTraffic::kDataIn;
    int owner = 0;
  };
  void record(int slot, MPI_Status& status, bool failed);

  std::vector<MPI_Request> requests_;  // MPI_REQUEST_NULL: a free slot
  std::vector<Slot> slots_;
  std::vector<int> free_;
  std::vector<int> indices_;  // for MPI_Testsome
  std::vector<MPI_Status> statuses_;
  std::vector<MpiEnded> ended_;
  int pending_[kNumMpiTraffics] = {};
};

}  // namespace tessera
