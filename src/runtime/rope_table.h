// Angles of the rotary embedding, with Llama 3.1's stretched frequencies where asked for.
#pragma once

#include <vector>

#include "base/sequence_rows.h"
#include "runtime/program_memory.h"
#include "spec/run_spec.h"

namespace tessera {

// Radians per position, head_dim / 2 of them.
std::vector<double> rope_frequencies(const RopeSpec& rope, int64_t head_dim);

// Cosines and sines for the rows that this rank holds, where the Program has tables for them.
void fill_rope_tables(ProgramMemory& memory, const Program& program, const RopeSpec& rope,
                      const SequenceRows& rows);

}  // namespace tessera
