// Ranks, stages and the like are int; what they index counts in size_t.
#pragma once

#include <cstddef>

namespace tessera {

constexpr size_t index(int value) { return static_cast<size_t>(value); }

}  // namespace tessera
