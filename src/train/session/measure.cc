#include "train/session/measure.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "train/plan_report.h"

namespace tessera {

nlohmann::ordered_json measured_rank_json(const Executor& executor, int64_t steps) {
  const Program& program = executor.program();
  std::array<int64_t, kNumArenas> arenas{};
  for (const ArenaKind arena : kAllArenas) {
    arenas[static_cast<size_t>(arena)] = executor.arena_bytes(arena);
  }
  std::vector<Traffic> traffic = executor.traffic();
  for (Traffic& t : traffic) {
    TESSERA_CHECK(t.calls % steps == 0 && t.bytes_sent % steps == 0,
                  "{} {} of rank {} differed between steps", t.group, t.op, program.rank);
    t.calls /= steps;
    t.bytes_sent /= steps;
  }
  return rank_json(program.mesh, program.rank, arenas, traffic, executor.executed_instructions(),
                   executor.executed_digest());
}

}  // namespace tessera
