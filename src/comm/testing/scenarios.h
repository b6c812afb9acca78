// What every backend must pass, scenario by scenario. All ranks of a world run the same scenario;
// each checks its own results.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "comm/testing/suite_rank.h"
#include "comm/world.h"

namespace tessera::testing {

struct Scenario {
  std::string_view name;
  int64_t (*buffer_bytes)(int size);
  void (*run)(SuiteRank& suite);
};

std::span<const Scenario> all_scenarios();

// Runs it as one rank. Throws Error naming the first failures. Returns a digest of all results,
// which must be the same in every run and on every backend that offers the same algorithms.
std::string run_scenario(const Scenario& scenario, CommWorld& world, const SuiteTraits& traits);

}  // namespace tessera::testing
