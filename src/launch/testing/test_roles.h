// For tests: what this test program does when it is started again as an agent or as a rank.
#pragma once

#include <string>
#include <vector>

namespace tessera::testing {

// arguments: "name=value" options of the agent, then "--", then those of run_as_rank.
int run_as_agent(const std::vector<std::string>& arguments);
// arguments: a scene of rank_scenes_test.cc and its parameters.
int run_as_rank(const std::vector<std::string>& arguments);

}  // namespace tessera::testing
