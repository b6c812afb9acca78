// The words that pictures use for a run and for its ranks.
#pragma once

#include <string>
#include <vector>

#include "compile/step.h"

namespace tessera {

// "2,967,808 parameters, f32, dp=2 tp=2 zero=1 sequence_parallel"
std::string run_title(const StepGraph& step);
std::string run_title(const RunSpec& spec, int64_t num_parameters, const std::string& schedule);

// The same with the model, if it has a name, and the batch: "llama-3-8b, 8,030,261,248 parameters,
// bf16, dp=8 zero=1, 512 sequences of 8,192 tokens in 64 micro-batches"
std::string full_run_title(const RunSpec& spec, int64_t num_parameters,
                           const std::string& schedule);

// The coordinates that all of them share: "pp0 tp1". Axes of one rank are left out.
std::string shared_coords(const Mesh& mesh, const std::vector<int>& ranks);

}  // namespace tessera
