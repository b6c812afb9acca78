#include "spec/run_file/pipeline.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.h"

namespace tessera {
namespace {

constexpr ScheduleKind kKinds[] = {
    {PipelineKind::kNaive},
    {PipelineKind::kGPipe},
    {PipelineKind::k1F1B},
    {.kind = PipelineKind::kInterleaved, .virtual_stages = 2, .any_virtual_stages = true},
    {PipelineKind::kZbH1},
    {PipelineKind::kZbH2},
    {.kind = PipelineKind::kZbV, .virtual_stages = 2},
    {.kind = PipelineKind::kDualPipeV, .virtual_stages = 2},
    {.kind = PipelineKind::kPipedream, .asynchronous = true},
    {.kind = PipelineKind::kPipedream2bw, .asynchronous = true},
};

}  // namespace

std::span<const ScheduleKind> schedule_kinds() { return kKinds; }

const ScheduleKind& schedule_kind(PipelineKind kind) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const ScheduleKind& known) { return known.kind == kind; });
  TESSERA_CHECK(found != std::end(kKinds), "schedule {} has no row", name_of(kind));
  return *found;
}

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
