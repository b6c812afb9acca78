// Random command lines, sensible and not, with the files that they name: for tests that nothing
// crashes, and that every build says the same. The same dice give the same requests everywhere.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "requests/dice.h"

namespace tessera::testing {

struct Request {
  std::vector<std::string> words;            // after "tessera"; paths are relative
  std::map<std::string, std::string> files;  // that must be there, by name
  bool may_fail = false;                     // it writes to a place that cannot be written to
};

// A request of any kind.
Request random_request(Dice& dice);

Request random_explain(Dice& dice);
Request random_plan(Dice& dice);
Request random_cluster_plan(Dice& dice);
Request random_serve_plan(Dice& dice);
Request random_simulation(Dice& dice);
Request random_search(Dice& dice);
Request random_published(Dice& dice);
Request random_presets(Dice& dice);
Request random_show(Dice& dice);
Request random_vary(Dice& dice);

}  // namespace tessera::testing
