// What --slow and --lost say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/replay/step_replay.h"

namespace tessera {

// "rank=3,factor=1.3", each. Throws ConfigError that names the flag, the text and what is expected.
std::vector<SlowRank> parse_slow(const std::vector<std::string>& texts);

struct LostAt {
  int rank = 0;
  double at = 0.5;  // part of the step, from 0 to 1
};
// "rank=2,at=0.5"; empty: none.
std::optional<LostAt> parse_lost(const std::string& text);

}  // namespace tessera
