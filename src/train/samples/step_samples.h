// What a run reads in each of its steps, without running it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/run_spec.h"
#include "train/report/step_trace.h"

namespace tessera {

struct StepSamples {
  int64_t step = 0;
  int64_t first_sample = 0;
  int64_t sequences = 0;
  int64_t labels = 0;  // that carry loss
  uint32_t crc32 = 0;  // of tokens and labels, sequence by sequence, as 32-bit integers
};

// `spec` has gone through resolve(). Depends on (data, seq_len, global_batch, seed, step) alone:
// the mesh has no part in it, and no step needs those before it. Throws ConfigError as a run would.
std::vector<StepSamples> look_at_steps(const RunSpec& spec, const StepRange& steps);

// The same samples as a safetensors file: "tokens" and "labels" [sequences, seq_len], int32, in the
// order of the steps; labels that carry no loss are -100. With data.document_mask also
// "document_starts". All are in memory at one time. Throws Error where it cannot be written.
void write_samples(const RunSpec& spec, const StepRange& steps, const std::string& path);

}  // namespace tessera
