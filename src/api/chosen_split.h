// The split of a run that no file describes, where nobody said all of it: the cheapest that fits.
#pragma once

#include <vector>

#include "api/split.h"
#include "cost/engine/engine.h"

namespace tessera {

// load_split(), and where the mesh is not said in whole and what would be filled in does not fit:
// with settings that `plan --check` would advise, those left alone that were said. They are listed
// in `guesses`, as flags. Where none fits, it is the run that load_split() gives. The mesh is said
// in whole by a run file, by --mesh, by --dp, or by --tp, --pp and the sharing of states (--zero,
// --fsdp) together.
RunSpec load_fitting_split(const RunSource& source, const SplitFlags& split, const Cluster& cluster,
                           const Engine& engine, const FileReader& read,
                           std::vector<Guess>& guesses, OpenSettings* open = nullptr);

// The run that load_fitting_split() begins with, whether it fits or not: what was said, and where
// that is no run on so many devices, the first tp and pp with which there is one.
RunSpec load_possible_split(const RunSource& source, const SplitFlags& split,
                            const Cluster& cluster, const Engine& engine, const FileReader& read);

}  // namespace tessera
