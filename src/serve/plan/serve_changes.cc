#include "serve/plan/serve_changes.h"

#include <fmt/format.h>

#include <bit>
#include <optional>

#include "base/error.h"

namespace tessera::serve {
namespace {

// Pages, where it fits; nothing where it does not, or cannot be at all.
std::optional<int64_t> pages_with(const RunSpec& model, const ServeOptions& options) {
  try {
    const ServeEstimate estimate = estimate_serving(model, options);
    if (estimate.fits) return estimate.shape.num_pages;
  } catch (const ConfigError&) {
  }
  return std::nullopt;
}

std::vector<RankBytes> all_ranks(const ServeEstimate& estimate) {
  std::vector<RankBytes> ranks;
  for (int rank = 0; rank < estimate.world(); ++rank) ranks.push_back(estimate.rank_bytes(rank));
  return ranks;
}

// The longest power of two for whose pages there is room; 0: not even for a short one.
int64_t shorter_context(const RunSpec& model, const ServeEstimate& estimate) {
  constexpr int64_t kShortest = 128;
  const ServeOutline outline = outline_serving(model, estimate.options);
  const int64_t pages = pages_that_fit(outline, all_ranks(estimate), estimate.shape.num_pages);
  const int64_t tokens = pages * estimate.shape.page_size;
  return tokens < kShortest ? 0
                            : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens)));
}

}  // namespace

std::vector<ServeChange> changes_that_fit(const RunSpec& model, const ServeEstimate& estimate,
                                          int64_t most_ranks) {
  const ServeOptions& asked = estimate.options;
  std::vector<ServeChange> changes;
  constexpr int64_t kMostLayersTried = 4096;  // in all plans together
  int64_t tried = 0;
  const auto consider = [&](const ServeOptions& options, const char* flag, std::string value) {
    tried += model.model.layers;
    if (tried > kMostLayersTried) return false;
    const std::optional<int64_t> pages = pages_with(model, options);
    if (pages) changes.push_back({flag, std::move(value), *pages});
    return pages.has_value();
  };
  if (size_bytes(asked.dtype) > size_bytes(DType::kBF16)) {
    ServeOptions options = asked;
    options.dtype = DType::kBF16;
    consider(options, "--dtype", "bf16");
  }
  if (const int64_t context = shorter_context(model, estimate); context > 0) {
    ServeOptions options = asked;
    options.max_context = context;
    consider(options, "--max-context", std::to_string(context));
  }
  for (const bool more_tp : {true, false}) {
    ServeOptions options = asked;
    int64_t& axis = more_tp ? options.tp : options.pp;
    const int64_t most = more_tp ? model.model.heads : model.model.layers;
    for (axis *= 2; axis <= most && options.tp * options.pp <= most_ranks; axis *= 2) {
      if (consider(options, "--mesh", fmt::format("tp={},pp={}", options.tp, options.pp))) break;
    }
  }
  return changes;
}

}  // namespace tessera::serve
