// Random command lines, sensible and not, for tests that nothing crashes and that every build says
// the same. The same seed gives the same requests everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/explain/topic.h"

namespace tessera::testing {

// splitmix64: the distributions of the standard library differ between libraries.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t next();
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(limit));
  }
  bool one_in(int64_t n) { return below(n) == 0; }
  template <typename Container>
  const auto& pick(const Container& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(std::size(from))))];
  }

 private:
  uint64_t state_;
};

// A value for a flag of this kind: mostly one that it takes.
std::string random_value(const Parameter& parameter, Dice& dice);

// Words after "tessera": "explain", a topic, flags.
std::vector<std::string> random_explain(Dice& dice);

// "--set" overrides and a "--mesh" for a run file of a small model; at most 8 ranks.
std::vector<std::string> random_overrides(Dice& dice);

}  // namespace tessera::testing
