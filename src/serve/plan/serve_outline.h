// What ranks that serve are asked for, before anything is compiled: the model on its mesh, the
// sizes of frames, and how many pages of the cache are the least. Both the plan that is run
// (serve_plan.h) and the one that is only shown (serve_estimate.h) begin with it, so they cannot
// differ.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compile/model/serve_step.h"
#include "compile/program/program.h"
#include "serve/frame.h"
#include "serve/plan/serve_options.h"
#include "spec/run_spec.h"

namespace tessera::serve {

// Frames of up to so many tokens, of so many sequences, with logits of so many rows.
struct FrameBucket {
  int64_t tokens = 0, sequences = 0, rows = 0;
};

// Bytes that a rank takes, by arena: what Programs take in turn counts once, as the largest of
// them.
struct RankBytes {
  std::array<int64_t, kNumArenas> arenas{};
  [[nodiscard]] int64_t at(ArenaKind arena) const { return arenas[static_cast<size_t>(arena)]; }
  [[nodiscard]] int64_t total() const;
  [[nodiscard]] int64_t beside_cache() const { return total() - at(ArenaKind::kCache); }
  void include(const Program& program);
  friend bool operator==(const RankBytes&, const RankBytes&) = default;
};

struct ServeOutline {
  ServeOptions options;
  RunSpec spec;                      // resolved: model, mesh, dtype
  ServeShape shape;                  // without the number of pages
  std::vector<FrameBucket> buckets;  // from the smallest to the largest
  int64_t least_pages = 0;           // of one sequence of max_context tokens

  [[nodiscard]] ServeStep step_of(const FrameBucket& bucket, int64_t num_pages) const;
};

// Throws ConfigError for what cannot be served; `model` and `options` as of plan_serving().
ServeOutline outline_serving(const RunSpec& model, const ServeOptions& options);

// Throws ConfigError where fewer pages are asked for than the least.
void require_enough_pages(const ServeOutline& outline);

// Pages that fit beside everything else, in the memory of all ranks together and in that of each,
// and are of use; may be less than the least, and below 0. `ranks` are compiled with `num_pages`.
// Throws ConfigError where no memory is given.
int64_t pages_that_fit(const ServeOutline& outline, const std::vector<RankBytes>& ranks,
                       int64_t num_pages);

// Whether ranks that take so much have that memory; where none is given they have.
bool have_memory(const ServeOptions& options, const std::vector<RankBytes>& ranks);

}  // namespace tessera::serve
