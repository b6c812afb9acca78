#include "train/report/measure.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "compile/program/memory_parts.h"
#include "plan/report/plan_json.h"

namespace tessera {

nlohmann::ordered_json measured_rank_json(const Executor& executor, int64_t steps) {
  const Program& program = executor.program();
  PlannedRank measured{.rank = program.rank,
                       .traffic = executor.traffic(),
                       .instructions = executor.executed_instructions(),
                       .digest = executor.executed_digest()};
  for (const ArenaKind arena : kTrainingArenas) {
    measured.memory[static_cast<size_t>(arena)] = executor.arena_bytes(arena);
  }
  measured.memory = memory_parts(program, measured.memory);
  for (Traffic& t : measured.traffic) {
    TESSERA_CHECK(t.calls % steps == 0 && t.bytes_sent % steps == 0,
                  "{} {} of rank {} differed between steps", t.group, t.op, program.rank);
    t.calls /= steps;
    t.bytes_sent /= steps;
  }
  return rank_json(program.mesh, measured);
}

}  // namespace tessera
