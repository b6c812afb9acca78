// What `tessera plan` and `tessera simulate` are asked for without a run file, or on top of one: a
// model, a cluster and a split as flags. What nobody says is filled in, and listed.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "cost/hardware/cluster.h"
#include "cost/step/estimate.h"
#include "plan/fit_advice.h"

namespace tessera {

// The model and its split.
void add_split(CLI::App& app, SplitFlags& request);
void add_request(CLI::App& app, SplitFlags& request);

// Flags as "section.key=value"; "" for those that were not given.
std::vector<std::string> settings_of(const SplitFlags& request);

// The run of `source` with the flags of `request` over it, for `cluster`, resolved. What was filled
// in is added to `guesses`; `open` gets what follows from the rest because nobody said it.
RunSpec load_request(RunSource source, const SplitFlags& request, const Cluster& cluster,
                     std::vector<Guess>& guesses, OpenSettings* open = nullptr);

}  // namespace tessera
