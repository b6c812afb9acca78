#include "comm/testing/scenarios.h"

#include <vector>

#include "base/hash.h"
#include "comm/testing/case_lists.h"
#include "comm/testing/case_run.h"
#include "comm/testing/scenario_steps.h"

namespace tessera::testing {

void run_cases(SuiteRank& suite, Communicator& group, const std::vector<SuiteCase>& cases) {
  for (const SuiteCase& c : cases) {
    suite.release_buffers();
    suite.pause();
    CaseRun(suite, group, c).run();
  }
}

namespace {

constexpr int64_t kMiB = 1 << 20;

void tiny(SuiteRank& suite) {
  run_cases(suite, suite.all(), tiny_cases(suite.traits(), suite.all().size()));
}

void middle(SuiteRank& suite) {
  run_cases(suite, suite.all(), middle_cases(suite.traits(), suite.all().size()));
}

void large(SuiteRank& suite) {
  run_cases(suite, suite.all(), large_cases(suite.traits(), suite.all().size()));
}

void special(SuiteRank& suite) {
  run_cases(suite, suite.all(), special_cases(suite.traits(), suite.all().size()));
}

// Other buffers, other delays, the same bits: also of algorithms that sum in an order of their own.
void repeatable(SuiteRank& suite) {
  std::vector<SuiteCase> cases = random_cases(suite.traits(), suite.all().size(), 120, 3000, 5);
  run_cases(suite, suite.all(), cases);
  const uint64_t first = suite.restart_digest();
  for (SuiteCase& c : cases) {
    c.place = static_cast<BufferPlace>((static_cast<int>(c.place) + 1) % kNumBufferPlaces);
    c.blocking = !c.blocking;
  }
  run_cases(suite, suite.all(), cases);
  suite.expect(suite.digest() == first, "the second run gave other bits than the first");
}

// Buffers of one case of 1 MiB with its guards, in and out.
int64_t for_a_large_case(int size) { return 2 * (size * (kMiB + 64) + 1024); }
int64_t for_small_cases(int size) { return size * kMiB / 4; }
int64_t for_many_cases(int size) { return size * kMiB; }
int64_t for_large_flights(int size) { return (3 * size + 1) * kMiB; }

constexpr Scenario kScenarios[] = {
    {"tiny", for_small_cases, tiny},
    {"middle", for_small_cases, middle},
    {"large", for_a_large_case, large},
    {"special", for_small_cases, special},
    {"repeatable", for_small_cases, repeatable},
    {"overlapping_groups", for_small_cases, overlapping_groups},
    {"in_flight", for_many_cases, in_flight},
    {"large_in_flight", for_large_flights, large_in_flight},
    {"split", for_small_cases, split},
    {"named_calls", for_small_cases, named_calls},
    {"point_to_point", for_small_cases, point_to_point},
    {"counters", for_small_cases, counters},
    {"arrivals", for_small_cases, arrivals},
};

}  // namespace

std::span<const Scenario> all_scenarios() { return kScenarios; }

std::string run_scenario(const Scenario& scenario, CommWorld& world, const SuiteTraits& traits) {
  SuiteRank suite(world, traits, std::string(scenario.name), scenario.buffer_bytes(world.size()));
  scenario.run(suite);
  suite.finish();
  return hex(suite.digest());
}

}  // namespace tessera::testing
