// What a named schedule is. Each is one file of named/, which cmake finds (cmake/schedules.cmake):
//   TESSERA_SCHEDULE(70, kZbV, "zb-v", .virtual_stages = 2);
// says its place among the schedules, its enumerator, its name, and where it differs from the
// defaults of ScheduleKind (spec/run_file/pipeline.h); define_schedule says what its ranks do.
// A file without a definition does not link.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/pipeline/schedule/schedule.h"

// Fails where the list that cmake made is not that of this line.
#define TESSERA_SCHEDULE(place, enumerator, name, ...) \
  static_assert((place) > 0 && name_of(PipelineKind::enumerator) == (name))

namespace tessera {

struct PipelineShape {
  int ranks = 1;
  int virtual_stages = 1;  // stages of each rank
  int micro_batches = 1;
  int group = 0;  // interleaved only

  [[nodiscard]] int stages() const { return ranks * virtual_stages; }
};

// Which rank holds a stage: round and round, or down and back again.
enum class StagePlacement : uint8_t { kLoop, kV };

// A rank of a pipeline that the cost model asks about: larger ones too than have a list.
struct PlaceInPipeline {
  int64_t rank = 0;
  int64_t ranks = 1;
  int64_t virtual_stages = 1;
  int64_t micro_batches = 1;
};

struct NamedSchedule {
  // What one rank does, in order.
  std::vector<StageAction> (*actions)(const PipelineShape& shape, int rank) = nullptr;
  StagePlacement placement = StagePlacement::kLoop;
  // What it asks of the shape beyond what all ask; throws ConfigError.
  void (*check)(const PipelineShape& shape) = nullptr;

  // Closed forms, for estimates that cannot wait for a list.
  // The most micro-batches of a stage that a rank keeps at one time. Without: counted in its list.
  int64_t (*live)(const PlaceInPipeline& at) = nullptr;
  // The part of the other ranks' time for a micro-batch that the busiest rank waits; `weight` is
  // the part of its own time that weight gradients take. Without: all of it, as in 1F1B.
  double (*idle)(int64_t virtual_stages, double weight) = nullptr;
};

template <PipelineKind kind>
NamedSchedule define_schedule();

#define TESSERA_DECLARE(enumerator, name, ...) \
  template <>                                  \
  NamedSchedule define_schedule<PipelineKind::enumerator>();
TESSERA_SCHEDULES(TESSERA_DECLARE)
#undef TESSERA_DECLARE

const NamedSchedule& named_schedule(PipelineKind kind);

// As make_schedule takes its arguments: throws ConfigError for what the schedule cannot have.
PipelineShape shape_of(PipelineKind kind, int ranks, int virtual_stages, int micro_batches,
                       int group);

// By its closed form, or counted. The count throws ConfigError for a shape that the schedule cannot
// have.
int64_t live_micro_batches(PipelineKind kind, const PlaceInPipeline& at);
// By its closed form, or that of 1F1B.
double idle_share(PipelineKind kind, int64_t virtual_stages, double weight);

}  // namespace tessera
