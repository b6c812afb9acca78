#include "serve/plan/serve_plan.h"

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::serve {
namespace {

// With so many pages.
void compile(ServePlan& plan, const ServeOutline& outline, int64_t num_pages) {
  plan.shape.num_pages = num_pages;
  plan.buckets.clear();
  plan.ranks.clear();
  for (const FrameBucket& bucket : outline.buckets) {
    StepGraph step = build_serve_step(plan.spec, outline.step_of(bucket, num_pages));
    std::vector<Program> programs = compile_ranks(step);
    plan.ranks.resize(programs.size());
    for (size_t r = 0; r < programs.size(); ++r) plan.ranks[r].include(programs[r]);
    plan.buckets.push_back({bucket, std::move(step), std::move(programs)});
  }
  plan.page_bytes = 0;
  for (const RankBytes& rank : plan.ranks) {
    plan.page_bytes += rank.at(ArenaKind::kCache) / num_pages;
  }
}

[[noreturn]] void refuse(const ServePlan& plan, int64_t pages) {
  int64_t beside = 0;
  for (const RankBytes& rank : plan.ranks) beside += rank.beside_cache();
  const ServeOptions& o = plan.options;
  const std::string may = o.memory_bytes > 0 ? human_bytes(o.memory_bytes)
                                             : human_bytes(o.rank_memory_bytes) + " of each";
  throw Error(
      fmt::format("does not fit: {} beside the cache need {}, and a sequence of {} tokens needs {} "
                  "of pages, but {} may be taken; use more ranks, a smaller dtype, max_context or "
                  "token_budget",
                  count_of(plan.world(), "rank"), human_bytes(beside), plan.shape.max_context,
                  human_bytes(pages * plan.page_bytes), may),
      ExitCode::kDoesNotFit);
}

}  // namespace

int64_t ServePlan::total_bytes() const {
  int64_t total = 0;
  for (const RankBytes& rank : ranks) total += rank.total();
  return total;
}

int ServePlan::sampling_rank() const {
  const Mesh& mesh = buckets.front().step.mesh;
  for (int rank = 0; rank < world(); ++rank) {
    if (mesh.coord(rank, Axis::kPp) == options.pp - 1 && mesh.coord(rank, Axis::kTp) == 0) {
      return rank;
    }
  }
  TESSERA_CHECK(false, "no rank of {} samples", world());
}

size_t ServePlan::bucket_of(int64_t tokens, int64_t sequences, int64_t rows) const {
  for (size_t i = 0; i < buckets.size(); ++i) {
    const FrameBucket& b = buckets[i].bucket;
    if (tokens <= b.tokens && sequences <= b.sequences && rows <= b.rows) return i;
  }
  TESSERA_CHECK(false, "a frame of {} tokens, {} sequences and {} rows, but at most {}, {} and {}",
                tokens, sequences, rows, shape.max_tokens, shape.max_sequences, shape.max_rows);
}

ServePlan plan_serving(const RunSpec& model, const ServeOptions& options) {
  const ServeOutline outline = outline_serving(model, options);
  ServePlan plan;
  plan.options = options;
  plan.spec = outline.spec;
  plan.shape = outline.shape;
  const int64_t least = outline.least_pages;
  require_enough_pages(outline);
  if (options.num_pages > 0) {
    compile(plan, outline, options.num_pages);
    if (!have_memory(options, plan.ranks)) refuse(plan, options.num_pages);
    return plan;
  }
  compile(plan, outline, least);
  const int64_t pages = pages_that_fit(outline, plan.ranks, least);
  if (pages < least) refuse(plan, least);
  compile(plan, outline, pages);
  return plan;
}

}  // namespace tessera::serve
