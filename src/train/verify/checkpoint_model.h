// The model of a checkpoint: what its state.json says of it, and the run directory around it.
#pragma once

#include <optional>
#include <string>

#include "spec/run_spec.h"

namespace tessera {

struct CheckpointModel {
  std::string path;  // of the one checkpoint
  std::string run;   // the run directory that it lies in; empty: it lies somewhere else
  // Model, type and length of sequences, not resolved; model.hf is where the run began.
  RunSpec spec;
  std::string tokenizer_hash;  // of the tokenizer it was trained with; empty: it reads bytes
};

// Nothing where `path` is none, such as a run directory or a folder of Hugging Face. `path` is a
// checkpoint or a folder of them, of which the newest is meant: a damaged one is refused, and not
// passed over. Throws Error with ExitCode::kCorrupt, kAbsent, kVersion, and ConfigError, with both
// values, where the tokenizer beside it is another one than it was trained with.
std::optional<CheckpointModel> find_checkpoint_model(const std::string& path);

}  // namespace tessera
