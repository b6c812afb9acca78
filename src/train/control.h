// What ranks tell each other beside the program: decisions of rank 0, and reports. Goes over a
// group of all ranks of its own ("control"), so that the program's traffic stays what the plan
// says.
#pragma once

#include <functional>
#include <string>

#include "comm/communicator.h"
#include "spec/run_spec.h"

namespace tessera {

// Rank 0's text, on every rank; the others' is not looked at.
std::string text_of_rank_zero(Communicator& control, std::string mine);

// The largest of all ranks' numbers, on every rank.
int64_t largest_of_ranks(Communicator& control, int64_t mine);

// Runs `action`, where a rank has one, on another thread, and returns on every rank once all are
// done. A disk may take longer than ranks wait for each other: those that are still at it say so
// again and again. Throws what the action of this rank threw, after the others are done.
void run_with_signs_of_life(Communicator& control, const std::function<void()>& action);

// `mine`, with rank 0's values for what depends on the machine, so that all ranks compile for the
// same number of threads, and for the run directory, which rank 0 may have chosen. Throws
// ConfigError on a rank that was told something else than rank 0, naming the first key.
RunSpec agree_on_spec(Communicator& control, RunSpec mine, int ranks_on_host);

}  // namespace tessera
