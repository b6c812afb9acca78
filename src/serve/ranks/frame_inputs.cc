#include "serve/ranks/frame_inputs.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"

namespace tessera::serve {
namespace {

void check_sequence(const FrameSequence& s, size_t n, const ServeShape& shape) {
  TESSERA_CHECK(
      s.num_tokens >= 1 && s.cached >= 0 && int64_t{s.cached} + s.num_tokens <= shape.max_context,
      "sequence {}: {} tokens behind {}, at most {} together", n, s.num_tokens, s.cached,
      shape.max_context);
  const int64_t needed = ceil_div(int64_t{s.cached} + s.num_tokens, shape.page_size);
  TESSERA_CHECK(std::ssize(s.pages) == needed, "sequence {}: {} pages for {} tokens of {} a page",
                n, s.pages.size(), s.cached + s.num_tokens, shape.page_size);
  for (const int32_t page : s.pages) {
    TESSERA_CHECK(page >= 0 && page < shape.num_pages, "sequence {}: page {} of {}", n, page,
                  shape.num_pages);
  }
}

// One input of the Program; nothing where this rank has no use for it.
class Input {
 public:
  Input(Executor& executor, BufferId id, int32_t padding)
      : to_(id == kNoBuffer ? nullptr : executor.input(id)),
        size_(id == kNoBuffer ? 0 : numel(executor.program().buffer(id).shape)) {
    std::fill_n(to_, size_, padding);
  }
  void set(int64_t at, int64_t value) {
    if (at < size_) to_[at] = static_cast<int32_t>(value);
  }

 private:
  int32_t* to_;
  int64_t size_;
};

}  // namespace

void check_frame(const Frame& frame, const ServeShape& shape) {
  const auto tokens = std::ssize(frame.tokens);
  TESSERA_CHECK(tokens >= 1 && tokens <= shape.max_tokens &&
                    std::ssize(frame.sequences) <= shape.max_sequences &&
                    std::ssize(frame.rows) <= shape.max_rows,
                "frame {}: {} tokens, {} sequences, {} rows; at most {}, {}, {}", frame.number,
                tokens, frame.sequences.size(), frame.rows.size(), shape.max_tokens,
                shape.max_sequences, shape.max_rows);
  for (const int32_t token : frame.tokens) {
    TESSERA_CHECK(token >= 0 && token < shape.vocab, "frame {}: token {} of {}", frame.number,
                  token, shape.vocab);
  }
  int64_t sum = 0;
  for (size_t n = 0; n < frame.sequences.size(); ++n) {
    check_sequence(frame.sequences[n], n, shape);
    sum += frame.sequences[n].num_tokens;
  }
  TESSERA_CHECK(sum == tokens, "frame {}: {} tokens, but {} in its sequences", frame.number, tokens,
                sum);
  for (const FrameRow& row : frame.rows) {
    TESSERA_CHECK(row.token_index >= 0 && row.token_index < tokens && row.sampling.how != nullptr,
                  "frame {}: row of token {} of {}", frame.number, row.token_index, tokens);
  }
  for (const PageCopy& copy : frame.copies) {
    const bool inside = std::min(copy.from, copy.to) >= 0 &&
                        std::max(copy.from, copy.to) < shape.num_pages && copy.from != copy.to;
    TESSERA_CHECK(inside, "frame {}: page {} copied to {} of {}", frame.number, copy.from, copy.to,
                  shape.num_pages);
  }
}

void fill_inputs(const Frame& frame, const ServeShape& shape, Executor& executor) {
  const Program& program = executor.program();
  const ServeBuffers& serve = program.serve;
  Input tokens(executor, program.tokens, 0);
  Input positions(executor, serve.positions, 0);
  Input slots(executor, serve.slots, -1);
  Input first_row(executor, serve.first_row, static_cast<int32_t>(frame.tokens.size()));
  Input kv_len(executor, serve.kv_len, 0);
  Input pages(executor, serve.pages, 0);
  Input rows(executor, serve.rows, -1);
  const int64_t pages_per_sequence = program.buffer(serve.pages).shape[1];
  for (size_t t = 0; t < frame.tokens.size(); ++t) {
    tokens.set(static_cast<int64_t>(t), frame.tokens[t]);
  }
  int64_t t = 0;
  for (size_t n = 0; n < frame.sequences.size(); ++n) {
    const FrameSequence& s = frame.sequences[n];
    const auto place = static_cast<int64_t>(n);
    first_row.set(place, t);
    kv_len.set(place, s.cached + s.num_tokens);
    for (size_t p = 0; p < s.pages.size(); ++p) {
      pages.set(place * pages_per_sequence + static_cast<int64_t>(p), s.pages[p]);
    }
    for (int64_t position = s.cached; position < s.cached + s.num_tokens; ++position, ++t) {
      const int64_t page = s.pages[static_cast<size_t>(position / shape.page_size)];
      positions.set(t, position);
      slots.set(t, page * shape.page_size + position % shape.page_size);
    }
  }
  for (size_t r = 0; r < frame.rows.size(); ++r) {
    rows.set(static_cast<int64_t>(r), frame.rows[r].token_index);
  }
}

}  // namespace tessera::serve
