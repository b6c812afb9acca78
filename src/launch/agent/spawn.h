// Starts a child process that cannot outlive the calling thread.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "launch/environment.h"

namespace tessera {

struct SpawnRequest {
  std::string name;                    // for messages: "rank 2"
  std::string executable;              // a path
  std::vector<std::string> arguments;  // with argv[0]
  Environment environment;             // all of it
  int stdin_fd = 0;
  int stdout_fd = 1;
  int stderr_fd = 2;
  int inherited_fd = -1;  // stays open under its number
  int kept_fd = -1;       // likewise; -1: there is none
  int listener_fd = -1;   // the same
  std::vector<int> cpus;  // to run on; empty: where this process may
  int oom_score = 0;      // as in launch/oom_score.h
  sigset_t signal_mask{};
};

// The child ignores SIGINT (whoever started it decides what ^C means) and is killed when the
// calling thread ends. Returns when the new program runs; throws Error naming the step that failed.
pid_t spawn_child(const SpawnRequest& request);

// Makes descriptors 0, 1 and 2 exist, so that none opened later is taken for one of them.
void open_standard_descriptors();

}  // namespace tessera
