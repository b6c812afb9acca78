// Frames that ranks run over and over to be timed: every sequence of a batch gets its next token,
// or a prompt is read. There is no scheduler and no HTTP.
#pragma once

#include <cstdint>
#include <vector>

#include "serve/frame.h"

namespace tessera::serve {

class DecodeFrames {
 public:
  // `runner` must outlive this, and have no frame under way.
  explicit DecodeFrames(FrameRunner& runner);

  // `batch` sequences that have `context` tokens, the newest included, each with pages of its own.
  // Stages of a pipeline get a part of them each, so that all work at once.
  [[nodiscard]] std::vector<Frame> decode(int64_t batch, int64_t context) const;
  // One sequence of `length` tokens, in chunks of as many as a frame has room for; the last token's
  // row alone is wanted.
  [[nodiscard]] std::vector<Frame> prompt(int64_t length) const;

  // Seconds of all frames, `times` times one after another, divided by `times`.
  double seconds(std::vector<Frame>& frames, int64_t times);

  // Pages that a batch needs.
  static int64_t pages_of(int64_t batch, int64_t tokens, int64_t page_size);

 private:
  FrameRunner& runner_;
  uint64_t number_ = 0;
};

}  // namespace tessera::serve
