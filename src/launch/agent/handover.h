// Passes a file descriptor from one process to others of the same user on the same host.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "launch/rendezvous/socket.h"
#include "launch/unique_fd.h"

namespace tessera {

// A socket without a place in the file system, so that a crash leaves nothing behind.
class HandoverDesk {
 public:
  HandoverDesk();
  [[nodiscard]] const std::string& name() const { return name_; }

  // Gives a copy of `fd` to ranks 1 … pids.size()-1, which must be the processes `pids`. With a
  // `failure`, they get that text instead. Throws CommError naming those that did not come.
  void serve(const std::vector<pid_t>& pids, int fd, const std::string& failure, Deadline deadline);

 private:
  // The rank of a visitor that may be served; throws Error.
  [[nodiscard]] int identify(const UniqueFd& visitor, const std::vector<pid_t>& pids,
                             Deadline deadline) const;

  std::string name_;  // random: knowing it proves that one took part in the rendezvous
  UniqueFd listener_;
};

// What rank 0, the process `pid`, hands over at the desk `name`. Throws CommError.
UniqueFd fetch_handover(const std::string& name, pid_t pid, int rank, Deadline deadline);

}  // namespace tessera
