// MPI from its start to its end in this process, and who the ranks are. Both may block inside the
// library for as long as a peer does not come, so both run on a thread that is waited for only so
// long.
#pragma once

#include <mpi.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi/bounded_thread.h"

namespace tessera {

struct MpiPeer {
  pid_t pid = 0;
  std::string host;
  int node = 0;  // peers with the same host name, numbered from 0 in order of their lowest rank
};

std::string mpi_error_text(int code);
// Throws CommError with that text after `what`, unless the code is success.
void check_mpi(int code, const char* what);

class MpiSession {
 public:
  // Throws Error where MPI was started before or allows one thread only, CommError where not every
  // rank has started within the time.
  explicit MpiSession(std::chrono::milliseconds timeout);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] const std::vector<MpiPeer>& peers() const { return peers_; }  // by rank
  // Nobody else's messages travel here. Errors are returned. Calls need the caller's own lock: MPI
  // is told that there is one.
  [[nodiscard]] MPI_Comm messages() const { return messages_; }

  // Ends MPI, once every rank is known to do the same. False when that took too long.
  [[nodiscard]] bool finish(std::chrono::milliseconds time);

 private:
  BoundedThread thread_;
  int rank_ = 0;
  MPI_Comm messages_ = MPI_COMM_NULL;
  std::vector<MpiPeer> peers_;
};

}  // namespace tessera
