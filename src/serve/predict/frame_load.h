// What decides how long a frame takes, of all that is in it: how many tokens, behind how many that
// are in the cache already, and how many rows of logits.
#pragma once

#include <cstdint>
#include <vector>

#include "serve/frame.h"

namespace tessera::serve {

struct SequenceLoad {
  int64_t cached = 0;  // tokens that the cache held before the frame
  int64_t tokens = 1;  // of it in the frame
};

struct FrameLoad {
  std::vector<SequenceLoad> sequences;
  int64_t rows = 0;  // whose logits are wanted

  [[nodiscard]] int64_t tokens() const;
  // Keys that its attention looks at, in layers with this window (0: none).
  [[nodiscard]] int64_t keys_read(int64_t window) const;
};

FrameLoad load_of(const Frame& frame);

// The next token of each of `batch` sequences that have `context` tokens, that one included.
FrameLoad decode_load(int64_t batch, int64_t context);
// A prompt in chunks of at most `chunk` tokens; the row of its last token is wanted.
std::vector<FrameLoad> prompt_loads(int64_t length, int64_t chunk);

}  // namespace tessera::serve
