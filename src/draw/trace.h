// Steps, simulated or measured, as a trace for ui.perfetto.dev and chrome://tracing: a process per
// rank, a thread per stream, a slice per instruction inside the slice of its pass, arrows for
// messages between stages, counters of memory. docs/simulate.md describes it. The same timeline
// gives the same bytes.
#pragma once

#include <string>
#include <vector>

#include "sim/replay/step_activity.h"

namespace tessera {

struct TraceOptions {
  std::string config_digest = "";  // of the run, for whoever compares traces
  std::string backend = "sim";     // who ran it
};

// All classes, each as its first rank. Throws Error where it would be too large to open.
std::string trace_json(const StepTimeline& timeline, const std::vector<RankActivity>& activities,
                       const TraceOptions& options = {});

// Several steps of a run one after the other: every rank is a class of its own, and all times are
// on one clock.
std::string trace_json(const std::vector<StepTimeline>& steps, const TraceOptions& options);

// One class, for tools that want a file per rank.
std::string trace_json_of(const StepTimeline& timeline, const std::vector<RankActivity>& activities,
                          size_t of_class, const TraceOptions& options = {});

}  // namespace tessera
