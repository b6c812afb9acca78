// The suite that every backend must pass, as one rank of an MPI job: mpi_suite [SCENARIO...], all
// of them by default.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/testing/share.h"
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

// Many ranks wait for a core most of the time: of theirs every second scenario in each commit.
std::vector<Scenario> wanted_scenarios(int size, const std::vector<std::string>& names) {
  const auto known = testing::all_scenarios();
  std::vector<Scenario> all(known.begin(), known.end());
  if (names.empty()) return size > 4 ? testing::share_of(all, 2) : all;
  std::erase_if(all, [&](const Scenario& scenario) {
    return std::find(names.begin(), names.end(), scenario.name) == names.end();
  });
  return all;
}

void run_suite(CommWorld& world, const std::vector<std::string>& names) {
  const SuiteTraits traits = {.offers = offers, .bytes_sent = bytes_of};
  for (const Scenario& scenario : wanted_scenarios(world.size(), names)) {
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
