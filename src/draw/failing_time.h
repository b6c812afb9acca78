// The time of a run that fails now and then, in rows of equal length: as a picture and as letters.
#pragma once

#include <string>
#include <string_view>

#include "cost/formulas/failure_replay.h"

namespace tessera {

inline constexpr RunPhase kAllRunPhases[kNumRunPhases] = {
    RunPhase::kTrain, RunPhase::kSave, RunPhase::kLost, RunPhase::kRestart, RunPhase::kWait};
std::string_view name_of(RunPhase phase);  // "training", "saves", "lost work", ...

// A row for every day of a month, with the useful share of its time; longer times have longer rows.
// `title` says by itself what it is of. `replay` has its spans.
std::string failing_time_svg(const FailureReplay& replay, const std::string& title,
                             const std::string& subtitle);

// # training, s saves, x lost work, r restarts, w waiting: in ten rows or fewer. `columns`: of the
// terminal; 0: a width that suits most.
std::string failing_time_text(const FailureReplay& replay, size_t columns = 0);

}  // namespace tessera
