// Pipeline schedules as CSV files, so that anyone can write one. docs/pipeline.md has the format:
//
//   placement,0,1,1,0          the pipeline rank of every stage
//   F0.0,F3.0,I3.0,W3.0,B0.0   rank 0: pass, stage, a dot, micro-batch
//   F1.0,F2.0,B2.0,B1.0        rank 1
//
// Empty lines, empty cells and lines that start with # mean nothing. Updates come at the end of the
// step: a schedule from a file is never asynchronous.
#pragma once

#include <string>
#include <string_view>

#include "compile/pipeline/schedule/schedule.h"

namespace tessera {

// Throws ConfigError "FILE:LINE:COLUMN: cell …" for what is not a cell, and what check_schedule
// throws for what is not a schedule. `file_name` becomes the schedule's name.
PipelineSchedule schedule_from_csv(std::string_view text, const std::string& file_name);

std::string to_csv(const PipelineSchedule& schedule);

}  // namespace tessera
