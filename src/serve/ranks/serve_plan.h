// What serving a model on a mesh takes: the Programs of every rank, one for each size of a frame,
// and all bytes. Compiled, not run. The same options and model give the same plan on every host, so
// ranks that are processes make it by themselves.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compile/step.h"
#include "serve/frame.h"
#include "serve/ranks/serve_options.h"
#include "spec/run_spec.h"

namespace tessera::serve {

// Frames of up to so many tokens, of so many sequences, with logits of so many rows.
struct Bucket {
  int64_t tokens = 0, sequences = 0, rows = 0;
};

// Bytes that a rank takes, by arena: what Programs take in turn counts once, as the largest of
// them.
struct RankBytes {
  std::array<int64_t, kNumArenas> arenas{};
  [[nodiscard]] int64_t at(ArenaKind arena) const { return arenas[static_cast<size_t>(arena)]; }
  [[nodiscard]] int64_t total() const;
};

struct ServePlan {
  ServeOptions options;
  RunSpec spec;                                // resolved: model, mesh, dtype
  ServeShape shape;                            // with the number of pages
  std::vector<Bucket> buckets;                 // ascending
  std::vector<StepGraph> steps;                // by bucket
  std::vector<std::vector<Program>> programs;  // by bucket and rank
  std::vector<RankBytes> ranks;
  int64_t page_bytes = 0;      // of one page, on the rank that has most of it
  int64_t kv_token_bytes = 0;  // of one token, likewise

  [[nodiscard]] int world() const { return static_cast<int>(ranks.size()); }
  // The rank that samples: the first of the last stage.
  [[nodiscard]] int sampling_rank() const;
  // Where a frame of this size goes. Throws InternalError for one that is larger than all.
  [[nodiscard]] size_t bucket_of(int64_t tokens, int64_t sequences, int64_t rows) const;
};

// `model`: what open_model_folder() says, or any resolved run of one rank. Throws ConfigError for
// what cannot be served, and Error with ExitCode::kDoesNotFit, before anything is allocated, where
// the memory that the options allow has no room for a page more than one sequence of max_context
// needs.
ServePlan plan_serving(const RunSpec& model, const ServeOptions& options);

}  // namespace tessera::serve
