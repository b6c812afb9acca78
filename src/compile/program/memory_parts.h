// What the memory of a rank is for. Arenas say it, but for one thing: gradients of a step with one
// micro-batch lie among the activations, in memory that values of the forward have left.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compile/program/program.h"

namespace tessera {

// The buffers in the activations' arena that hold gradients, some of them inside others. None where
// gradients have an arena of their own.
std::vector<BufferId> gradient_buffers_among_activations(const Program& program);

// Bytes of the activations' arena that hold gradients when the backward ends, where all of them are
// there together. 0 where gradients have an arena of their own.
int64_t gradients_among_activations(const Program& program);

// The arenas with those bytes counted as gradients: activations are what the arena has beyond them.
// The sum is that of the arenas.
std::array<int64_t, kNumArenas> memory_parts(const Program& program);

// The same for arenas as large as those of `program` have turned out to be.
std::array<int64_t, kNumArenas> memory_parts(const Program& program,
                                             std::array<int64_t, kNumArenas> arenas);

}  // namespace tessera
