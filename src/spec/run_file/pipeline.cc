#include "spec/run_file/pipeline.h"

#include <cstddef>
#include <optional>

#include "base/error.h"

namespace tessera {
namespace {

#define TESSERA_KIND(enumerator, name, ...) \
  {.kind = PipelineKind::enumerator __VA_OPT__(, ) __VA_ARGS__},
constexpr ScheduleKind kKinds[] = {TESSERA_SCHEDULES(TESSERA_KIND)};
#undef TESSERA_KIND

}  // namespace

std::span<const ScheduleKind> schedule_kinds() { return kKinds; }

const ScheduleKind& schedule_kind(PipelineKind kind) { return kKinds[static_cast<size_t>(kind)]; }

void read_schedule_file(ParallelSpec& parallel, const FileReader& read_file) {
  const PipelineChoice& schedule = parallel.schedule;
  parallel.schedule_csv = schedule.is_file() ? read_file(schedule.file()) : "";
}

void resolve_schedule(ParallelSpec& parallel) {
  const std::optional<PipelineKind> named = parallel.schedule.kind();
  if (!named) return;  // the file says which stages there are
  const ScheduleKind& kind = schedule_kind(*named);
  if (parallel.virtual_stages == 0) parallel.virtual_stages = kind.virtual_stages;
  require_config(kind.any_virtual_stages || parallel.virtual_stages == kind.virtual_stages,
                 "schedule {} has {} stage{} per rank, but virtual_stages = {}; use virtual_stages "
                 "= {}, or schedule = \"interleaved\"",
                 name_of(kind.kind), kind.virtual_stages, kind.virtual_stages == 1 ? "" : "s",
                 parallel.virtual_stages, kind.virtual_stages);
}

}  // namespace tessera
