// The cost model's word on a run, without its Programs: closed forms of its stages, and its
// pipeline played with them.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/step/cost_model.h"
#include "plan/strategy_of_run.h"

namespace tessera {

class ScheduleTapes;

// What the products of the blocks are computed in.
enum class BlockProducts : uint8_t {
  kAsTrained,  // train.dtype
  kFp8,        // 8 bits; embedding, head, norms, routers and attention as train.dtype says
};

struct RunEstimate {
  RunStrategy run;  // its cluster has as many devices as there are ranks
  Estimate estimate;
};

// What of a run the cost model prices. `spec` must have gone through resolve(). Throws ConfigError
// for a mesh with more ranks than the cluster has devices, for 8 bits on a device without them, and
// for what the cost model cannot price.
RunStrategy priced_strategy(const RunSpec& spec, const Cluster& cluster, const Engine& engine,
                            BlockProducts products = BlockProducts::kAsTrained);

// Throws as priced_strategy() does. `tapes`: of whoever prices many runs.
RunEstimate estimate_run(const RunSpec& spec, const Cluster& cluster, const Engine& engine,
                         BlockProducts products = BlockProducts::kAsTrained,
                         ScheduleTapes* tapes = nullptr);

// Constants of the device and its links that nobody has measured or published.
std::vector<Guess> default_constants(const Cluster& cluster);

}  // namespace tessera
