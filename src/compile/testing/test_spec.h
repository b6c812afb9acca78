// Small run descriptions for tests.
#pragma once

#include <string>

#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera::testing {

// Two small blocks on `mesh` ("dp=2,tp=2,zero=1"), not resolved yet.
inline RunSpec small_spec(const std::string& mesh) {
  RunSpec spec;
  spec.model.layers = 2;
  spec.model.hidden = 16;
  spec.model.ffn = 24;
  spec.model.heads = 4;
  spec.model.kv_heads = 4;
  spec.model.head_dim = 4;
  spec.model.vocab = 40;
  spec.train.seq_len = 8;
  spec.train.threads = 1;
  spec.parallel = parse_mesh(mesh, spec.parallel);
  return spec;
}

inline RunSpec resolved(RunSpec spec) {
  resolve(spec);
  return spec;
}

}  // namespace tessera::testing
