#include "serve/plan/serve_report.h"

#include <algorithm>

#include "base/text/text.h"

namespace tessera::serve {

std::vector<int64_t> reported_contexts(int64_t max_context) {
  std::vector<int64_t> contexts;
  for (const int64_t length : {int64_t{1} << 10, int64_t{1} << 12, int64_t{1} << 15}) {
    if (length < max_context) contexts.push_back(length);
  }
  contexts.push_back(max_context);
  return contexts;
}

PageTerms page_terms(const ServeEstimate& estimate) {
  constexpr int64_t kLine = 64;  // as in pages_that_fit()
  const int64_t lines = kLine * estimate.spec.model.layers;
  const int64_t limit = estimate.options.rank_memory_bytes;
  PageTerms terms;
  if (limit == 0) {
    terms.limit_bytes = estimate.options.memory_bytes;
    terms.line_bytes = lines * estimate.world();
    terms.page_bytes = estimate.page_bytes;
    for (const StageEstimate& stage : estimate.stages) {
      terms.beside_bytes += stage.ranks * stage.bytes.beside_cache();
    }
    return terms;
  }
  const auto room = [&](const StageEstimate& stage) {
    return (limit - stage.bytes.beside_cache() - lines) / std::max<int64_t>(1, stage.page_bytes);
  };
  terms.stage = &*std::min_element(
      estimate.stages.begin(), estimate.stages.end(),
      [&](const StageEstimate& a, const StageEstimate& b) { return room(a) < room(b); });
  terms.limit_bytes = limit;
  terms.beside_bytes = terms.stage->bytes.beside_cache();
  terms.line_bytes = lines;
  terms.page_bytes = terms.stage->page_bytes;
  return terms;
}

std::vector<DecodeFloor> decode_floors(const ServeReport& report) {
  const ServeEstimate& estimate = report.estimate;
  std::vector<DecodeFloor> floors;
  for (const int64_t context : report.contexts) {
    const int64_t most = std::min(estimate.most_sequences(context), estimate.shape.max_sequences);
    std::vector<int64_t> counts;
    for (const int64_t count : {int64_t{1}, int64_t{16}, int64_t{64}}) {
      if (count < most) counts.push_back(count);
    }
    if (most > 0) counts.push_back(most);
    for (const int64_t count : counts) {
      floors.push_back(decode_floor(estimate, report.cluster->device, count, context));
    }
  }
  return floors;
}

std::string serve_misfit_sentence(const ServeReport& report) {
  const ServeEstimate& estimate = report.estimate;
  const PageTerms terms = page_terms(estimate);
  const int64_t needed = terms.beside_bytes + estimate.shape.num_pages * terms.page_bytes;
  const std::string who = terms.stage == nullptr
                              ? fmt::format("{} together {}", count_of(estimate.world(), "rank"),
                                            estimate.world() == 1 ? "needs" : "need")
                              : fmt::format("rank {} needs", terms.stage->first_rank);
  return fmt::format(
      "does not fit: {} {} beside the cache and {} for one sequence of {} tokens, {} more than the "
      "{} "
      "of {}",
      who, human_bytes(terms.beside_bytes),
      human_bytes(estimate.shape.num_pages * terms.page_bytes),
      with_thousands(estimate.shape.max_context), human_bytes(needed - terms.limit_bytes),
      human_bytes(terms.limit_bytes), report.memory_of);
}

std::string serve_misfit_text(const ServeReport& report) {
  std::string text = serve_misfit_sentence(report);
  if (!report.has_advice) return text;
  if (report.changes.empty()) {
    return text +
           "; neither a shorter context nor more ranks of this cluster are enough: use a "
           "device with more memory, or a smaller model";
  }
  text += "; each of these makes it fit:";
  for (const ServeChange& change : report.changes) {
    text +=
        fmt::format("\n  {} {}: {} pages", change.flag, change.value, with_thousands(change.pages));
  }
  return text;
}

}  // namespace tessera::serve
