// Runs one function as every rank of a fresh world, as threads or as processes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/device.h"
#include "comm/world.h"

namespace tessera::testing {

struct RankOutcome {
  std::string report;  // what the body returned
  std::string error;   // what it threw; empty: nothing
};

using RankBody = std::function<std::string(CommWorld& world)>;

struct RunOptions {
  int ranks = 1;
  std::chrono::milliseconds timeout{20'000};  // of collectives; all ranks together get a bit more
  std::shared_ptr<Device> device = nullptr;   // that they share, as threads; null: the host
};

// A body that throws anything but CommError aborts the world, so that its peers do not wait for it.
using RunRanks = std::vector<RankOutcome> (*)(const RunOptions& options, const RankBody& body);
std::vector<RankOutcome> run_as_threads(const RunOptions& options, const RankBody& body);
std::vector<RankOutcome> run_as_processes(const RunOptions& options, const RankBody& body);

// The failed ranks with their errors, or an empty text.
std::string errors_of(const std::vector<RankOutcome>& outcomes);

}  // namespace tessera::testing
