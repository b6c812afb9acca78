// Lifetimes of storages, and their places in the arenas.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "compile/lower/instances.h"
#include "compile/lower/storage.h"
#include "compile/program/program.h"

namespace tessera {

// Storages begin at multiples of 64 bytes.
int64_t arena_aligned(int64_t bytes);

// Fills first_use and last_use of transient and stash storages, in positions of the rank's nodes,
// from every instruction that touches them. Memory that a collective uses is free only once the
// compute stream has waited for it, which it does before the next part at the latest.
// `part_ends`: by item of the pipeline order, the last position of its part.
void find_lifetimes(const Program& program, const std::vector<Region>& region_of,
                    const std::vector<InstructionPlace>& places, const std::vector<int>& part_ends,
                    std::vector<Storage>& storages);

// Gives every storage an offset; those that are never alive together may share memory. Each lane of
// a stage is a block with the same layout: the stash of a micro-batch, in whose gaps transients may
// lie while that micro-batch runs. The other transients of all stages share one block, since parts
// run one after the other. Deterministic.
void place_storages(std::vector<Storage>& storages, const std::map<int, int>& lanes,
                    std::array<int64_t, kNumArenas>& arena_bytes);

}  // namespace tessera
