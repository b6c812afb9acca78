// A text that is being written: a prompt, and behind it the answer so far.
#pragma once

#include <cstdint>
#include <vector>

#include "serve/batch/batch_options.h"
#include "serve/batch/page_key.h"

namespace tessera::serve {

struct RequestState;

struct Sequence {
  RequestState* request = nullptr;
  // Which answers it stands for: all of its request until the prompt is computed, then one.
  std::vector<int32_t> choices;
  std::vector<int32_t> tokens;  // prompt and answer

  int64_t computed = 0;       // tokens that are in the cache once all planned frames have run
  int64_t most_computed = 0;  // what was computed before it was preempted is computed again
  std::vector<int32_t> pages;
  std::vector<PageKey> keys;  // of its full pages, as far as they were wanted
  int64_t published = 0;      // pages of it whose key the cache knows

  enum class Phase : uint8_t {
    kWaiting,  // has no pages
    kParked,   // preempted while its next token was under way; waits once that has come
    kPrompt,   // has pages for all its tokens, which are computed chunk by chunk
    kAnswer,   // in a pipeline group: one token in each of its frames
  };
  Phase phase = Phase::kWaiting;
  bool awaits_token = false;  // a planned frame has its row
  int group = 0;              // of the pipeline, in kAnswer
  int64_t chunk = 0;          // most prompt tokens of it in a frame
  int64_t times_preempted = 0;
  int64_t overtaken = 0;
  uint64_t arrival = 0;

  [[nodiscard]] int64_t num_tokens() const { return std::ssize(tokens); }
  [[nodiscard]] int64_t left() const { return num_tokens() - computed; }
  [[nodiscard]] bool runs() const { return phase == Phase::kPrompt || phase == Phase::kAnswer; }
  [[nodiscard]] bool is_ready() const { return phase == Phase::kAnswer && !awaits_token; }
};

struct RequestState {
  BatchRequest asked;
  std::vector<std::unique_ptr<Sequence>> sequences;  // one until the prompt is computed
  bool has_begun = false;
  int64_t cached_tokens = 0;  // of the prompt, found when it began
  int64_t prompt_rows = 0;    // planned

  [[nodiscard]] int64_t prompt_tokens() const { return std::ssize(asked.prompt); }
};

inline int64_t pages_for(int64_t tokens, int64_t page_size) {
  return (tokens + page_size - 1) / page_size;
}

// Pages of a prompt and all its answers: full pages of the prompt are shared, and the last token of
// an answer is never computed.
inline int64_t most_pages(int64_t prompt_tokens, int64_t max_tokens, int64_t choices,
                          int64_t page_size) {
  const int64_t shared = prompt_tokens / page_size;
  const int64_t computed = prompt_tokens + std::max<int64_t>(max_tokens - 1, 0);
  return shared + choices * (pages_for(computed, page_size) - shared);
}

}  // namespace tessera::serve
