// Which units (blocks) make up each pipeline stage. Pure.
#pragma once

#include <span>
#include <vector>

#include "spec/run_spec.h"

namespace tessera {

// The first unit of each stage: stages are runs of neighbouring units, each has at least one, and
// together they have all. The most expensive stage is as cheap as it can be; among those cuts the
// stages are as even as they can be, and of equal ones the early stages, which keep more
// micro-batches alive, have fewer units. Throws ConfigError if there are more stages than units.
std::vector<int> balance_units(std::span<const double> unit_cost, int stages);

// Multiplications of a token in each block, forward. The head counts with the last block, and the
// embedding, a copy, as one multiplication for each element with the first.
std::vector<double> block_costs(const ModelSpec& model, int64_t seq_len);

}  // namespace tessera
