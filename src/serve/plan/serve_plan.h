// What serving a model on a mesh takes: the Programs of every rank, one for each size of a frame,
// and all bytes. Compiled, not run, and pure: the same options and model give the same plan on
// every host, so ranks that are processes make it by themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/step.h"
#include "serve/frame.h"
#include "serve/plan/serve_options.h"
#include "serve/plan/serve_outline.h"
#include "spec/run_spec.h"

namespace tessera::serve {

// One size of a frame.
struct BucketPlan {
  FrameBucket bucket;
  StepGraph step;
  std::vector<Program> programs;  // by rank
};

struct ServePlan {
  ServeOptions options;
  RunSpec spec;                     // resolved: model, mesh, dtype
  ServeShape shape;                 // with the number of pages
  std::vector<BucketPlan> buckets;  // from the smallest to the largest
  std::vector<RankBytes> ranks;
  int64_t page_bytes = 0;  // of one page, on all ranks together

  [[nodiscard]] int world() const { return static_cast<int>(ranks.size()); }
  [[nodiscard]] int64_t total_bytes() const;
  // The rank that samples: the first of the last stage.
  [[nodiscard]] int sampling_rank() const;
  // The place of the smallest bucket that a frame of this size fits. Throws InternalError where
  // none is large enough.
  [[nodiscard]] size_t bucket_of(int64_t tokens, int64_t sequences, int64_t rows) const;
};

// `model`: resolved, of one rank, such as that of open_model_folder(). `options` must say how many
// threads a rank has, and either the number of pages or the memory for all ranks
// (serve/ranks/host_options.h asks the machine). Throws ConfigError for what cannot be served, and
// Error with ExitCode::kDoesNotFit where the memory has no room for the pages of one sequence of
// max_context tokens.
ServePlan plan_serving(const RunSpec& model, const ServeOptions& options);

}  // namespace tessera::serve
