// Counts in formulas whose result is no count.
#pragma once

#include <cstdint>

namespace tessera {

inline double to_double(int64_t value) { return static_cast<double>(value); }

}  // namespace tessera
