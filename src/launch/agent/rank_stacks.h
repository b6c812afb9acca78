// Where ranks are when one of them hangs: the instruction that each is at, and for every thread
// what the system says of it and the calls that it is in. The ranks are asked, and need not answer:
// what a rank does not say is left out, and asking is over within kAnswerTime.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "comm/shm/shm_world.h"

namespace tessera {

inline constexpr std::chrono::milliseconds kAnswerTime{700};

struct RankStacks {
  std::vector<std::string> at;  // by rank: the calls of its first thread, "nanosleep < run < main"
  std::string text;             // all of it
};

// `pids` by rank; 0: it is not there.
RankStacks ask_for_stacks(const ShmMemory& memory, const std::vector<pid_t>& pids);

}  // namespace tessera
