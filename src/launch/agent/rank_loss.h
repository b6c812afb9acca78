// Why a job went no further: which rank, and what was seen of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "comm/run_state.h"
#include "launch/agent/child_exit.h"

namespace tessera {

enum class Verdict : uint8_t {
  kLost,         // the process ended: killed, crashed, or with a code of its own
  kStopped,      // it is there and the system does not let it run (SIGSTOP)
  kHung,         // it runs, and all others wait for it
  kPartitioned,  // its host has not been heard of for a lease
};
constexpr const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kLost:
      return "lost";
    case Verdict::kStopped:
      return "stopped";
    case Verdict::kHung:
      return "hung";
    case Verdict::kPartitioned:
      return "partitioned";
  }
  return "";
}

// What was seen of a rank that has not ended.
struct RankTrouble {
  Verdict verdict = Verdict::kStopped;
  int generation = 1;
  int rank = 0;
  pid_t pid = 0;
  double seconds = 0;  // for how long it has been so
  RunSection section = RunSection::kSetup;
  int64_t step = 0;
  bool over = false;  // a stopped rank that goes on again
  // What each rank did last: "rank 0 waits for rank 1 in all_reduce(f32, 4096) #7 of group dp".
  std::vector<std::string> ranks = {};
  // Where a hung one is: the calls that its first thread is in, "nanosleep < tessera::run", and
  // those of all threads of all ranks, a line each.
  std::string at = {};
  std::string stacks = {};
};

struct RankLoss {
  Verdict verdict = Verdict::kLost;  // others than kLost: that because of which it was killed
  int generation = 1;                // how often the ranks had been started
  int rank = 0;
  pid_t pid = 0;
  ChildExit exit = {};
  RunSection section = RunSection::kSetup;  // that the rank was in
  int64_t step = 0;                         // that it was at; 0: before the first
  std::string reason = {};                  // the message of the job
  double unix_time = 0;                     // when it was seen
  // A new process may do better: not where the rank found a mistake that it would find again.
  bool curable = false;
};

}  // namespace tessera
