// What serving takes, without the Programs of every rank: equal to the byte to serve_plan.h. Ranks
// of one stage do the same on other heads, and stages in the middle with as many layers do the same
// on other layers, so one rank of each kind is compiled.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compile/program/comm_call.h"
#include "graph/mesh.h"
#include "serve/plan/serve_outline.h"

namespace tessera::serve {

// One frame on one rank, as large as its bucket. What is read of the cache depends on what it holds
// and is not in it (StageEstimate says it for each token).
struct FrameWork {
  int64_t flops = 0;       // of products
  int64_t bytes = 0;       // read and written
  CallCounts calls;        // of collectives and messages
  int64_t room_bytes = 0;  // activations, communication and workspace of this Program
};

// Each rank of one stage of the pipeline.
struct StageEstimate {
  int first_rank = 0;
  int64_t ranks = 0;
  int64_t first_layer = 0, layers = 0;
  bool has_embedding = false, has_head = false;
  RankBytes bytes;
  int64_t page_bytes = 0;         // of one page, on one rank
  int64_t weight_bytes = 0;       // that every frame reads: all but those of experts and the table
  int64_t expert_bytes = 0;       // weights of experts
  int64_t flops_per_pair = 0;     // of attention: a token and one that it looks at
  std::vector<FrameWork> frames;  // by bucket
};

struct ServeEstimate {
  ServeOptions options;
  RunSpec spec;                      // resolved: model, mesh, dtype
  ServeShape shape;                  // with the number of pages
  std::vector<FrameBucket> buckets;  // from the smallest to the largest
  std::vector<StageEstimate> stages;
  int64_t num_parameters = 0;
  int64_t page_bytes = 0;  // of one page, on all ranks together
  bool fits = true;        // else it has the pages of one longest sequence, and no room for them
  bool splits_kv_heads = true;  // else every rank has all of them
  Mesh mesh;
  std::array<int, 2> pipeline_ends = {};

  [[nodiscard]] int64_t world() const { return mesh.world(); }
  [[nodiscard]] int64_t total_bytes() const;
  [[nodiscard]] int64_t cache_tokens() const { return shape.num_pages * shape.page_size; }
  // All ranks together hold so many.
  [[nodiscard]] int64_t bytes_per_token() const { return page_bytes / shape.page_size; }
  // So many tokens long, in the cache at once.
  [[nodiscard]] int64_t most_sequences(int64_t context) const;
  // The stage whose ranks take the most.
  [[nodiscard]] const StageEstimate& heaviest() const;
  [[nodiscard]] const StageEstimate& stage_of(int rank) const;
  [[nodiscard]] RankBytes rank_bytes(int rank) const { return stage_of(rank).bytes; }
  // What a rank sends in a frame of that bucket.
  [[nodiscard]] std::vector<Traffic> traffic(size_t bucket, int rank) const;
};

// As plan_serving(), but says with `fits` what that throws Error with ExitCode::kDoesNotFit for.
ServeEstimate estimate_serving(const RunSpec& model, const ServeOptions& options);

}  // namespace tessera::serve
