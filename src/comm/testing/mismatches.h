// Calls on which ranks disagree. Every rank must throw CommError that names both sides, before any
// data is touched.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/world.h"

namespace tessera::testing {

struct Mismatch {
  const char* name;
  CollectiveCall usual;  // without buffers
  CollectiveCall odd;
};

std::span<const Mismatch> all_mismatches();

struct MismatchRun {
  int odd_rank = 2;
  int calls_before = 16;
  bool heap_buffers = true;
};

// What every rank does. Throws CommError, or Error where nothing or too much was noticed.
void run_mismatch(CommWorld& world, const Mismatch& mismatch, const MismatchRun& run);

// What the CommError of every rank must contain: what the odd rank called, and what another one
// did.
std::vector<std::string> mismatch_texts(const Mismatch& mismatch, const MismatchRun& run);

}  // namespace tessera::testing
