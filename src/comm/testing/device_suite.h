// The suite for ranks as threads that share a device, real or pretended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/testing/scenarios.h"
#include "comm/testing/shared_memory_backends.h"

namespace tessera::testing {

struct SharedDevice {
  std::shared_ptr<Device> device;
  SuiteTraits::Copy upload, download;
};

// What each rank got: its digest, or its error.
inline std::vector<RankOutcome> run_on_device(const SharedDevice& shared, const Scenario& scenario,
                                              int ranks) {
  SuiteTraits traits = shared_memory_traits();
  traits.upload = shared.upload;
  traits.download = shared.download;
  return run_as_threads({.ranks = ranks, .device = shared.device},
                        [&](CommWorld& world) { return run_scenario(scenario, world, traits); });
}

inline std::vector<RankOutcome> run_on_host(const Scenario& scenario, int ranks) {
  const SuiteTraits traits = shared_memory_traits();
  return run_as_threads({.ranks = ranks},
                        [&](CommWorld& world) { return run_scenario(scenario, world, traits); });
}

inline std::vector<std::string> reports_of(const std::vector<RankOutcome>& outcomes) {
  std::vector<std::string> reports;
  for (const RankOutcome& outcome : outcomes) reports.push_back(outcome.report);
  return reports;
}

}  // namespace tessera::testing
