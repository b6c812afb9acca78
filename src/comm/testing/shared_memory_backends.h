// The two backends of one host, for tests that both must pass.
#pragma once

#include "comm/testing/run_ranks.h"
#include "comm/testing/suite_rank.h"

namespace tessera::testing {

struct Backend {
  const char* name;
  RunRanks run;
};
constexpr Backend kSharedMemoryBackends[] = {{"local", run_as_threads}, {"shm", run_as_processes}};

SuiteTraits shared_memory_traits();

}  // namespace tessera::testing
