// A model that lies in a folder: that of a run, one of its checkpoints, or one of Hugging Face.
#pragma once

#include <string>

#include "spec/run_spec.h"

namespace tessera {

struct ModelFolder {
  std::string path;
  bool is_run = false;         // or a checkpoint of one
  bool is_checkpoint = false;  // then `path` is that of one checkpoint
  std::string run = {};        // the run directory that the checkpoint lies in, or empty
  std::string tokenizer_hash =
      {};  // that a checkpoint was trained with; empty: not known, or bytes
  // One rank that computes in f32, micro-batches of one sequence, weights from `path` (model.hf).
  // Resolved; train.seq_len is that of the run, or what the model was made for, at most 1024.
  RunSpec spec;
  std::string origin;  // of a run that began with the weights of a folder: that folder
};

// Throws ConfigError for what is none of them, and Error as find_checkpoint_model() does; weights
// are not looked at.
ModelFolder open_model_folder(const std::string& path);

// The file of this name in the folder or, for a checkpoint, in the run directory or, for a run, in
// the folder that its weights came from; empty: there is none.
std::string find_beside(const ModelFolder& folder, const std::string& name);

}  // namespace tessera
