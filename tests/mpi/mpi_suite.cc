// The suite that every backend must pass, as one rank of an MPI job: mpi_suite [SCENARIO...], all
// of them by default.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "collective/schedule.h"
#include "comm/mpi/mpi_world.h"
#include "comm/testing/scenarios.h"

namespace tessera {
namespace {

using testing::Scenario;
using testing::SuiteCase;
using testing::SuiteTraits;

bool offers(const SuiteCase& c, int) { return supports(c.op, c.algorithm); }

// What the schedules say, with all ranks on one host.
int64_t bytes_of(const SuiteCase& c, int rank, int size) {
  return testing::scheduled_bytes(c, rank, size);
}

bool is_wanted(const Scenario& scenario, const std::vector<std::string>& names) {
  return names.empty() || std::find(names.begin(), names.end(), scenario.name) != names.end();
}

void run_suite(CommWorld& world, const std::vector<std::string>& names) {
  const SuiteTraits traits = {.offers = offers, .bytes_sent = bytes_of};
  for (const Scenario& scenario : testing::all_scenarios()) {
    if (!is_wanted(scenario, names)) continue;
    const auto begin = std::chrono::steady_clock::now();
    try {
      run_scenario(scenario, world, traits);
    } catch (const std::exception& error) {
      const std::string text =
          fmt::format("rank {}: {}: {}", world.rank(), scenario.name, error.what());
      world.abort(text);
      throw Error(text);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (world.rank() == 0) fmt::print("{}: {:.2f} s\n", scenario.name, seconds.count());
  }
}

void make_world_and_run(const std::vector<std::string>& names) {
  const auto world = make_mpi_world({.timeout = std::chrono::seconds(20)});
  run_suite(*world, names);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    tessera::make_world_and_run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    tessera::end_mpi_after_failure(1);
  }
}
