// Lifetimes of storages, and their places in the arenas.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compile/program.h"
#include "compile/storage.h"

namespace tessera {

// Fills first_use and last_use, in positions of graph nodes, from every instruction that touches a
// storage. Memory that a collective uses is free only once the compute stream has waited for it.
void find_lifetimes(const Program& program, const std::vector<StorageId>& storage_of,
                    const std::vector<int>& position_of, std::vector<Storage>& storages);

// Gives every storage an offset; those that are never alive together may share memory.
// Deterministic.
void place_storages(std::vector<Storage>& storages, std::array<int64_t, kNumArenas>& arena_bytes);

}  // namespace tessera
