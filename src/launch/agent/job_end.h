// What a job that has ended says of itself: exit code and message. Pure.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>

#include "launch/agent/child_exit.h"

namespace tessera {

struct RankEnd {
  pid_t pid = 0;
  std::optional<ChildExit> exit = {};  // none: it does not die, not even of SIGKILL
  bool killed_by_agent = false;        // because it did not end in time
  bool killed_by_verdict = false;      // because it was stopped or hung
  std::string last_call = {};          // "all_reduce(f32, 4096) #17 of group dp", or empty
};

struct JobHistory {
  std::span<const RankEnd> ranks = {};
  int stop_signal = 0;        // SIGINT, SIGTERM: the agent was asked to stop; 0: it was not
  bool checkpointed = false;  // the last step that was done is in a checkpoint
  std::optional<int> first_failed = {};  // the first rank that was seen to fail
  std::string if_killed = {};  // what to add where SIGKILL, not ours, ended a rank; or empty
  std::string reason = {};     // the first abort reason of the world, or empty
};

struct JobEnd {
  int exit_code = 0;
  std::string message;  // empty: nothing to say
  // Where it failed: the rank that the others followed, and whether a new process may do
  // better: not where it found a mistake that it would find again, or a rank cannot be killed.
  std::optional<int> culprit = {};
  bool curable = false;
};

// By the table in launch/agent/agent.h.
JobEnd judge(const JobHistory& history);

// "rank 2 (pid 4711) was killed by SIGKILL; its last call was barrier #4 of group world"
std::string describe_rank_end(int rank, const RankEnd& end);

}  // namespace tessera
