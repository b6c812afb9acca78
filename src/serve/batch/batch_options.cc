#include "serve/batch/batch_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "serve/batch/sequence.h"

namespace tessera::serve {

int64_t BatchOptions::slots(const ServeShape& shape) const {
  return std::min({shape.max_sequences, shape.max_rows, shape.max_tokens, token_budget});
}

void BatchOptions::check(const ServeShape& shape) const {
  require_config(
      shape.vocab > 0 && shape.max_context > 0 && shape.page_size > 0 && shape.num_pages > 0 &&
          shape.stages > 0,
      "the ranks have a vocabulary of {}, contexts of {}, pages of {}, {} of them, and {} "
      "stages: each must be 1 at least",
      shape.vocab, shape.max_context, shape.page_size, shape.num_pages, shape.stages);
  require_config(token_budget > 0, "token_budget is {}: it must be 1 at least", token_budget);
  require_config(
      slots(shape) > 0,
      "a frame has room for {} tokens, {} sequences and {} rows: each must be 1 at least",
      shape.max_tokens, shape.max_sequences, shape.max_rows);
  require_config(least_chunk > 0, "least_chunk is {}: it must be 1 at least", least_chunk);
  require_config(expected_answer > 0, "expected_answer is {}: it must be 1 at least",
                 expected_answer);
}

std::string why_too_long(int64_t prompt_tokens, int64_t max_tokens, int choices,
                         const ServeShape& shape, const BatchOptions& options) {
  if (prompt_tokens > shape.max_context || max_tokens > shape.max_context - prompt_tokens) {
    return fmt::format(
        "the prompt has {} tokens and its answer may have {}; the context has {}: shorten the "
        "prompt or lower max_tokens",
        prompt_tokens, max_tokens, shape.max_context);
  }
  const int64_t slots = options.slots(shape);
  if (choices > slots) {
    return fmt::format("{} answers at once; {} are possible: ask for fewer", choices, slots);
  }
  // All answers must fit together only where none may be preempted.
  const bool together = options.admission == Admission::kGuarantee;
  const int64_t pages =
      most_pages(prompt_tokens, max_tokens, together ? choices : 1, shape.page_size);
  if (pages > shape.num_pages) {
    return fmt::format(
        "a prompt of {} tokens and {} of up to {} need {} pages of the cache; it has {}: shorten "
        "the prompt or lower max_tokens{}",
        prompt_tokens, together && choices > 1 ? fmt::format("{} answers", choices) : "an answer",
        max_tokens, pages, shape.num_pages, together && choices > 1 ? " or n" : "");
  }
  return {};
}

}  // namespace tessera::serve
