#include "serve/machine/decode_frames.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "base/philox.h"
#include "base/rounding.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;

std::shared_ptr<const Sampling> greedy() {
  return std::make_shared<const Sampling>(Sampling{.temperature = 0});
}

// Any token does.
int32_t token_at(int64_t sequence, int64_t position, int64_t vocab) {
  return static_cast<int32_t>(
      static_cast<double>(vocab) *
      uniform_at(3, static_cast<uint64_t>(sequence), static_cast<uint64_t>(position)));
}

// Tokens [cached, cached + count) of a sequence, behind what the frame has.
void add_sequence(Frame& frame, const ServeShape& shape, int64_t sequence, int64_t cached,
                  int64_t count, int64_t first_page) {
  FrameSequence& added = frame.sequences.emplace_back();
  added.num_tokens = static_cast<int32_t>(count);
  added.cached = static_cast<int32_t>(cached);
  added.pages.resize(static_cast<size_t>(ceil_div(cached + count, shape.page_size)));
  std::iota(added.pages.begin(), added.pages.end(), static_cast<int32_t>(first_page));
  for (int64_t t = cached; t < cached + count; ++t) {
    frame.tokens.push_back(token_at(sequence, t, shape.vocab));
  }
}

// The row of the newest token.
void add_row(Frame& frame, const std::shared_ptr<const Sampling>& how) {
  const FrameSequence& last = frame.sequences.back();
  FrameRow& row = frame.rows.emplace_back();
  row.token_index = static_cast<int32_t>(frame.tokens.size()) - 1;
  row.sampling.how = how;
  row.sampling.position = last.cached + last.num_tokens;
}

}  // namespace

DecodeFrames::DecodeFrames(FrameRunner& runner) : runner_(runner) {}

int64_t DecodeFrames::pages_of(int64_t batch, int64_t tokens, int64_t page_size) {
  return batch * ceil_div(tokens, page_size);
}

std::vector<Frame> DecodeFrames::decode(int64_t batch, int64_t context) const {
  const ServeShape& shape = runner_.shape();
  const int64_t groups = std::min<int64_t>(shape.stages, batch);
  const auto how = greedy();
  std::vector<Frame> frames(static_cast<size_t>(groups));
  for (int64_t n = 0; n < batch; ++n) {
    Frame& frame = frames[static_cast<size_t>(n * groups / batch)];
    add_sequence(frame, shape, n, context - 1, 1, pages_of(n, context, shape.page_size));
    add_row(frame, how);
  }
  return frames;
}

std::vector<Frame> DecodeFrames::prompt(int64_t length) const {
  const ServeShape& shape = runner_.shape();
  std::vector<Frame> frames;
  for (int64_t first = 0; first < length; first += shape.max_tokens) {
    const int64_t count = std::min(shape.max_tokens, length - first);
    add_sequence(frames.emplace_back(), shape, 0, first, count, 0);
  }
  add_row(frames.back(), greedy());
  return frames;
}

double DecodeFrames::seconds(std::vector<Frame>& frames, int64_t times) {
  const Clock::time_point start = Clock::now();
  int under_way = 0;
  for (int64_t i = 0; i < times; ++i) {
    for (Frame& frame : frames) {
      if (under_way == runner_.shape().stages) {
        static_cast<void>(runner_.finish());
        --under_way;
      }
      frame.number = ++number_;
      runner_.start(frame);
      ++under_way;
    }
  }
  for (; under_way > 0; --under_way) static_cast<void>(runner_.finish());
  return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(times);
}

}  // namespace tessera::serve
