#include "serve/plan/serve_outline.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/rounding.h"
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

// How often `part` fits beside the rest; a part of no bytes is taken for one of one.
int64_t times(int64_t memory, int64_t beside, int64_t part) {
  return (memory - beside) / std::max<int64_t>(1, part);
}

// What is not running is found again if somebody sends its beginning. Where the memory has room for
// so many times all that can run at once, more would only be counted and looked through.
int64_t pages_of_use(const ServeOutline& outline) {
  constexpr int64_t kTimes = 16;
  return kTimes * outline.shape.max_sequences * outline.shape.stages * outline.least_pages;
}

}  // namespace

int64_t RankBytes::total() const {
  return std::accumulate(arenas.begin(), arenas.end(), int64_t{0});
}

void RankBytes::include(const Program& program) {
  for (size_t i = 0; i < arenas.size(); ++i) {
    arenas[i] = std::max(arenas[i], program.arena_bytes[i]);
  }
}

ServeStep ServeOutline::step_of(const FrameBucket& bucket, int64_t num_pages) const {
  ServeStep step;
  step.tokens = bucket.tokens;
  step.rows = bucket.rows;
  step.sequences = bucket.sequences;
  step.pages_per_sequence = ceil_div(options.max_context, options.page_size);
  step.page_size = options.page_size;
  step.num_pages = num_pages;
  return step;
}

ServeOutline outline_serving(const RunSpec& model, const ServeOptions& options) {
  require_counts(options);
  constexpr int64_t kMostLayers = 1024;  // so that all frames are compiled within seconds
  require_config(model.model.layers <= kMostLayers,
                 "model.layers = {}: serving has Programs for up to {} layers; use fewer",
                 model.model.layers, kMostLayers);
  ServeOutline outline;
  outline.options = options;
  outline.spec = served_spec(model, options);
  outline.shape.vocab = outline.spec.model.vocab;
  outline.shape.max_context = options.max_context;
  outline.shape.page_size = options.page_size;
  outline.shape.max_tokens = options.max_tokens;
  outline.shape.max_sequences = std::min(options.max_sequences, options.max_tokens);
  outline.shape.max_rows = std::min(options.max_rows, options.max_tokens);
  outline.shape.stages = static_cast<int>(options.pp);
  outline.buckets = buckets_of(options, outline.spec.model.experts > 0);
  outline.least_pages = ceil_div(options.max_context, options.page_size);
  return outline;
}

void require_enough_pages(const ServeOutline& outline) {
  const ServeOptions& options = outline.options;
  require_config(options.num_pages == 0 || options.num_pages >= outline.least_pages,
                 "serve: {} pages of {} tokens have no room for one sequence of max_context = {}; "
                 "use {} pages or more, or a smaller max_context",
                 options.num_pages, options.page_size, options.max_context, outline.least_pages);
}

int64_t pages_that_fit(const ServeOutline& outline, const std::vector<RankBytes>& ranks,
                       int64_t num_pages) {
  const ServeOptions& options = outline.options;
  require_config(options.memory_bytes > 0 || options.rank_memory_bytes > 0,
                 "serve: give num_pages, or the memory that the ranks may take (memory_gib)");
  // Every layer's pages begin on a whole line.
  constexpr int64_t kLine = 64;
  const int64_t lines = kLine * outline.spec.model.layers;
  int64_t beside = 0, page_bytes = 0;
  int64_t pages = std::numeric_limits<int64_t>::max();
  for (const RankBytes& rank : ranks) {
    const int64_t page = rank.at(ArenaKind::kCache) / num_pages;
    beside += rank.beside_cache() + lines;
    page_bytes += page;
    if (options.rank_memory_bytes > 0) {
      pages = std::min(pages, times(options.rank_memory_bytes, rank.beside_cache() + lines, page));
    }
  }
  if (options.memory_bytes > 0) {
    pages = std::min(pages, times(options.memory_bytes, beside, page_bytes));
  }
  return std::min(pages, pages_of_use(outline));
}

bool have_memory(const ServeOptions& options, const std::vector<RankBytes>& ranks) {
  int64_t total = 0;
  for (const RankBytes& rank : ranks) {
    total += rank.total();
    if (options.rank_memory_bytes > 0 && rank.total() > options.rank_memory_bytes) return false;
  }
  return options.memory_bytes == 0 || total <= options.memory_bytes;
}

}  // namespace tessera::serve
