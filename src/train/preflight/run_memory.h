// What the ranks of a run are planned to take together, and the plan to show where a host, or a
// GPU, has less.
#pragma once

#include <cstdint>
#include <string>

#include "comm/shm/host_memory.h"
#include "plan/plan.h"

namespace tessera {

struct PlannedMemory {
  int64_t all_ranks = 0;
  int64_t fullest_rank = 0;
  int64_t staging = 0;  // of all ranks, on the host: copies for saves beside the steps
};
// `spec` must have gone through resolve() and use_machine_defaults().
PlannedMemory planned_memory(const RunSpec& spec);

// What each process takes beside tensors and text, about: buffers of messages, programs, stacks.
inline constexpr int64_t kProcessBytes = int64_t{16} << 20;

// Ranks that take from one memory, and what there is for them.
struct SharedMemory {
  int64_t ranks = 0;
  int64_t planned_bytes = 0;  // of their tensors together
  int64_t other_bytes = 0;    // of their processes beside the tensors
  HostMemory memory = {};

  [[nodiscard]] bool suffices() const {
    return planned_bytes + other_bytes <= memory.available_bytes;
  }
};

// The plan of the run for the share of one of these ranks, with what would make it fit. Call it
// where the memory does not suffice.
Plan plan_within(const RunSpec& spec, const OpenSettings& open, const SharedMemory& shared);
// The same for a limit of one rank; `limit_of` as in PlanRequest.
Plan plan_within(const RunSpec& spec, const OpenSettings& open, int64_t limit_bytes,
                 const std::string& limit_of);

// For commands whose ranks are threads of this process, before anything is allocated: what all of
// them are planned to take must be free on this host. Throws Error with ExitCode::kDoesNotFit and
// what would fit. A run on a GPU is looked at by others (require_room_on_gpu).
void require_room_here(const RunSpec& spec);

}  // namespace tessera
