// Schedules that are ready to be played: they depend on their shape alone, so whoever prices many
// runs shares them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "sim/schedule/program_tape.h"
#include "sim/schedule/schedule_simulator.h"

namespace tessera {

// One per thread. What it gives lives as long as it does.
class ScheduleTapes {
 public:
  using Key =
      std::tuple<PipelineKind, int64_t, int64_t, int64_t>;  // ranks, virtual stages, micro-batches

  // Messages in the order of our Programs, or as soon as they can be.
  const ProgramTape& program(const Key& key);
  const ScheduleTape& schedule(const Key& key);

 private:
  std::map<Key, std::unique_ptr<ScheduleTape>> schedules_;
  std::map<Key, std::unique_ptr<ProgramTape>> programs_;
};

}  // namespace tessera
