// Why a job went no further: which rank, and what was seen of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "comm/run_state.h"
#include "launch/agent/child_exit.h"

namespace tessera {

enum class Verdict : uint8_t {
  kLost,  // the process ended: killed, crashed, or with a code of its own
};
constexpr const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kLost:
      return "lost";
  }
  return "";
}

struct RankLoss {
  Verdict verdict = Verdict::kLost;
  int generation = 1;  // how often the ranks had been started
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
