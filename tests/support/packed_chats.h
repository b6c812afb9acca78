// Conversations packed into sequences, trained on for two steps.
#pragma once

#include <string>
#include <vector>

#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "support/token_sets.h"
#include "train/verify/verify.h"

namespace tessera::testing {

// `folder`: of make_chat_folder().
inline RunSpec packed_chat_spec(const std::string& folder, const std::string& mesh) {
  RunSpec spec;
  spec.model.layers = 2;
  spec.model.hidden = 16;
  spec.model.ffn = 32;
  spec.model.heads = 4;
  spec.model.vocab = 512;
  spec.model.init_std = 0.3;
  spec.parallel = parse_mesh(mesh, {});
  spec.train.seq_len = 160;
  spec.train.global_batch = 2;
  spec.train.steps = 3;
  spec.train.dtype = DType::kF64;
  spec.train.threads = 1;
  spec.optimizer.lr = 1e-2;
  spec.optimizer.eps = 1e-4;  // Adam divides by |g|: near zero it would magnify rounding errors
  spec.data.chats = folder + "/chats.jsonl";
  spec.data.tokenizer = folder;
  spec.data.document_mask = true;
  resolve(spec);
  return spec;
}

// Without borders, what is attended to begins at the start of the sequence.
inline ShortRun packed_chat_run(const RunSpec& spec, bool with_borders) {
  ShortRun run;
  run.spec = spec;
  const Samples samples = training_samples(spec);
  run.samples = samples.fill;
  if (with_borders) run.starts = samples.starts;
  run.steps = 2;
  return run;
}

}  // namespace tessera::testing
