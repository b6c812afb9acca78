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
  // The calls of the first thread of each rank, "nanosleep < run < main".
  std::vector<std::string> at;
  std::string text;  // all of it
};

// `pids` by rank; 0: it is not there, kNotHere: it is on another host, and not spoken of.
inline constexpr pid_t kNotHere = -1;
RankStacks ask_for_stacks(const ShmMemory& memory, const std::vector<pid_t>& pids);

}  // namespace tessera
