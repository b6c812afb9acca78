#include "serve/ranks/serve_plan.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/rounding.h"
#include "base/text/text.h"
#include "runtime/rank_memory.h"
#include "spec/run_file/validate.h"

namespace tessera::serve {
namespace {

// Sizes of frames that Programs are compiled for, in tokens.
constexpr int64_t kSizes[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048};

void require_counts(const ServeOptions& o) {
  const auto require_positive = [](const char* name, int64_t value) {
    require_config(value >= 1, "serve.{} = {}: use 1 or more", name, value);
  };
  require_positive("max_context", o.max_context);
  require_positive("page", o.page_size);
  require_positive("token_budget", o.max_tokens);
  require_positive("max_sequences", o.max_sequences);
  require_positive("max_rows", o.max_rows);
  require_positive("threads", o.threads);
  constexpr int64_t kMostTokens = int64_t{1} << 20;
  require_config(
      o.max_context <= kMostTokens && o.max_tokens <= kMostTokens && o.max_sequences <= kMostTokens,
      "serve: max_context = {}, token_budget = {}, max_sequences = {}: use at most {}",
      o.max_context, o.max_tokens, o.max_sequences, kMostTokens);
}

// The model on the mesh that serves it. What only training needs is as if nobody had said it.
RunSpec served_spec(const RunSpec& model, const ServeOptions& options) {
  RunSpec spec;
  spec.model = model.model;
  spec.model.dropout = spec.model.attention_dropout = 0;
  spec.model.router_aux_coef = 0;
  spec.parallel.tp = options.tp;
  spec.parallel.pp = options.pp;
  spec.parallel.ep = options.ep;
  spec.train.dtype = options.dtype;
  spec.train.device = TrainDevice::kCpu;
  spec.train.threads = options.threads;
  spec.train.micro_batch = spec.train.global_batch = 1;
  // Experts get the tokens of a step dealt out; the length of a sequence is no matter there.
  spec.train.seq_len =
      spec.model.experts > 0 ? round_up(options.max_context, options.tp) : options.max_context;
  resolve(spec);
  return spec;
}

std::vector<FrameBucket> buckets_of(const ServeOptions& options, bool experts) {
  std::vector<int64_t> sizes;
  for (const int64_t size : kSizes) {
    if (size < options.max_tokens) sizes.push_back(size);
  }
  sizes.push_back(options.max_tokens);
  if (experts) {  // every rank routes as many tokens
    for (int64_t& size : sizes) size = round_up(size, options.tp);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  }
  std::vector<FrameBucket> buckets;
  for (const int64_t size : sizes) {
    buckets.push_back(
        {size, std::min(size, options.max_sequences), std::min(size, options.max_rows)});
  }
  return buckets;
}

// With so many pages.
void compile(ServePlan& plan, int64_t num_pages) {
  const ServeOptions& o = plan.options;
  plan.shape.num_pages = num_pages;
  plan.buckets.clear();
  plan.ranks.clear();
  for (const FrameBucket& bucket : buckets_of(o, plan.spec.model.experts > 0)) {
    ServeStep shape;
    shape.tokens = bucket.tokens;
    shape.rows = bucket.rows;
    shape.sequences = bucket.sequences;
    shape.pages_per_sequence = ceil_div(o.max_context, o.page_size);
    shape.page_size = o.page_size;
    shape.num_pages = num_pages;
    StepGraph step = build_serve_step(plan.spec, shape);
    std::vector<Program> programs = compile_ranks(step);
    plan.ranks.resize(programs.size());
    for (size_t r = 0; r < programs.size(); ++r) {
      RankMemory::include(programs[r], plan.ranks[r].arenas);
    }
    plan.buckets.push_back({bucket, std::move(step), std::move(programs)});
  }
  plan.page_bytes = 0;
  for (const RankBytes& rank : plan.ranks) {
    plan.page_bytes += rank.at(ArenaKind::kCache) / num_pages;
  }
}

// What is not running is found again if somebody sends its beginning. Where the memory has room for
// so many times all that can run at once, more would only be counted and looked through.
int64_t pages_of_use(const ServePlan& plan, int64_t of_one_sequence) {
  constexpr int64_t kTimes = 16;
  return kTimes * plan.shape.max_sequences * plan.shape.stages * of_one_sequence;
}

// As many as fit beside everything else.
int64_t pages_that_fit(const ServePlan& plan, int64_t least) {
  const int64_t memory = plan.options.memory_bytes;
  require_config(memory > 0,
                 "serve: give num_pages, or the memory that the ranks may take (memory_gib)");
  int64_t beside = 0;
  for (const RankBytes& rank : plan.ranks) beside += rank.total() - rank.at(ArenaKind::kCache);
  // Every layer's pages begin on a whole line.
  constexpr int64_t kLine = 64;
  const int64_t lines = kLine * plan.spec.model.layers * plan.world();
  const int64_t pages = (memory - beside - lines) / std::max<int64_t>(1, plan.page_bytes);
  if (memory > beside + lines && pages >= least) return pages;
  throw Error(
      fmt::format("does not fit: {} beside the cache need {}, and a sequence of {} tokens needs {} "
                  "of pages, but {} may be taken; use more ranks, a smaller dtype, max_context or "
                  "token_budget",
                  count_of(plan.world(), "rank"), human_bytes(beside), plan.shape.max_context,
                  human_bytes(least * plan.page_bytes), human_bytes(memory)),
      ExitCode::kDoesNotFit);
}

}  // namespace

int64_t RankBytes::total() const {
  return std::accumulate(arenas.begin(), arenas.end(), int64_t{0});
}

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
  ServePlan plan;
  plan.options = options;
  require_counts(options);
  plan.spec = served_spec(model, options);
  plan.shape.vocab = plan.spec.model.vocab;
  plan.shape.max_context = options.max_context;
  plan.shape.page_size = options.page_size;
  plan.shape.max_tokens = options.max_tokens;
  plan.shape.max_sequences = std::min(options.max_sequences, options.max_tokens);
  plan.shape.max_rows = std::min(options.max_rows, options.max_tokens);
  plan.shape.stages = static_cast<int>(options.pp);
  const int64_t least = ceil_div(options.max_context, options.page_size);
  if (options.num_pages > 0) {
    require_config(options.num_pages >= least,
                   "serve: {} pages of {} tokens have no room for one sequence of max_context = "
                   "{}; use {} pages or more, or a smaller max_context",
                   options.num_pages, options.page_size, options.max_context, least);
    compile(plan, options.num_pages);
    const bool fits = options.memory_bytes == 0 || plan.total_bytes() <= options.memory_bytes;
    if (!fits) static_cast<void>(pages_that_fit(plan, options.num_pages));
    return plan;
  }
  compile(plan, least);
  compile(plan, std::min(pages_that_fit(plan, least), pages_of_use(plan, least)));
  return plan;
}

}  // namespace tessera::serve
