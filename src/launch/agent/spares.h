// Processes that have started and wait for the place of a rank that is lost.
//
// A spare has the program, the arguments and the environment of a rank, but no role: it waits on a
// socket that it inherits. What makes it a rank (its variables, the shared memory, its streams)
// comes through that socket in one message. It ends when the socket closes, and with the agent.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "launch/agent/spawn.h"
#include "launch/environment.h"
#include "launch/poll_set.h"
#include "launch/unique_fd.h"

namespace tessera {

class SparePool {
 public:
  SparePool() = default;
  ~SparePool();  // ends and reaps those that have no role
  SparePool(const SparePool&) = delete;
  SparePool& operator=(const SparePool&) = delete;

  // Starts spares until there are `wanted`. `like`: as a rank, without a role; standard input and
  // the descriptor that is inherited are not looked at. Throws Error.
  void fill(int wanted, const SpawnRequest& like);
  // Makes a spare the rank that `role` would start: returns its pid, which is the caller's to reap.
  // Nothing where there is none.
  std::optional<pid_t> take(const SpawnRequest& role);

  void add_to(PollSet& set);
  // The spares that have died since the last call.
  std::vector<pid_t> reap(const PollSet& set);

 private:
  struct Spare {
    pid_t pid = 0;
    UniqueFd socket;
    size_t slot = PollSet::kNone;
  };
  std::vector<Spare> spares_;
};

// In the process of a spare: waits for its role, and takes it on. Returns the environment of the
// rank that it is from now on; nothing where the job ended without it, and `environment` itself
// where this is no spare. Throws Error.
std::optional<Environment> take_role(const Environment& environment);

}  // namespace tessera
