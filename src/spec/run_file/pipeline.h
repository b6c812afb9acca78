// The pipeline schedules that a run file can name. How they run is in compile/schedule.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "spec/run_file/run_file.h"
#include "spec/run_spec.h"

namespace tessera {

struct ScheduleKind {
  std::string_view name;
  int64_t virtual_stages = 1;       // stages of each rank
  bool any_virtual_stages = false;  // that number is only the default
  // Weights are updated between the micro-batches of a step.
  bool asynchronous = false;
};

std::span<const ScheduleKind> schedule_kinds();
// Throws ConfigError with the nearest known name.
const ScheduleKind& schedule_kind(std::string_view name);
std::vector<std::string_view> schedule_names();

// `schedule` is the name of a CSV file instead.
bool names_schedule_file(std::string_view schedule);

// Reads the file that parallel.schedule names, if it names one, into schedule_csv.
void read_schedule_file(ParallelSpec& parallel, const FileReader& read_file);

// Fills virtual_stages and refuses unknown schedules and stages that the schedule does not have.
// What else a schedule asks of the numbers of ranks and micro-batches, make_schedule checks.
void resolve_schedule(ParallelSpec& parallel);

}  // namespace tessera
