// The scenarios by name; scenarios.cc lists them. One file for each kind.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "comm/testing/suite_case.h"
#include "comm/testing/suite_rank.h"

namespace tessera::testing {

// One after the other, with pauses.
void run_cases(SuiteRank& suite, Communicator& group, const std::vector<SuiteCase>& cases);

// group_scenarios.cc
void overlapping_groups(SuiteRank& suite);
void in_flight(SuiteRank& suite);
void large_in_flight(SuiteRank& suite);
void split(SuiteRank& suite);

// call_scenarios.cc
void named_calls(SuiteRank& suite);
void point_to_point(SuiteRank& suite);

// traffic_scenarios.cc
void counters(SuiteRank& suite);
void arrivals(SuiteRank& suite);

}  // namespace tessera::testing
