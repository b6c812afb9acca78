// Whole numbers rounded up. Both arguments are positive, or the first is 0.
#pragma once

#include <cstdint>

namespace tessera {

constexpr int64_t ceil_div(int64_t number, int64_t by) { return (number + by - 1) / by; }

constexpr int64_t round_up(int64_t number, int64_t multiple) {
  return ceil_div(number, multiple) * multiple;
}

}  // namespace tessera
