#include "serve/predict/frame_load.h"

#include <algorithm>

namespace tessera::serve {

int64_t FrameLoad::tokens() const {
  int64_t sum = 0;
  for (const SequenceLoad& one : sequences) sum += one.tokens;
  return sum;
}

int64_t FrameLoad::keys_read(int64_t window) const {
  int64_t sum = 0;
  for (const SequenceLoad& one : sequences) {
    const int64_t all = one.cached + one.tokens;
    sum += window > 0 ? std::min(all, window + one.tokens - 1) : all;
  }
  return sum;
}

FrameLoad load_of(const Frame& frame) {
  FrameLoad load;
  for (const FrameSequence& one : frame.sequences) {
    load.sequences.push_back({one.cached, one.num_tokens});
  }
  load.rows = std::ssize(frame.rows);
  return load;
}

FrameLoad decode_load(int64_t batch, int64_t context) {
  FrameLoad load;
  load.sequences.assign(static_cast<size_t>(batch), {std::max<int64_t>(0, context - 1), 1});
  load.rows = batch;
  return load;
}

std::vector<FrameLoad> prompt_loads(int64_t length, int64_t chunk) {
  std::vector<FrameLoad> loads;
  for (int64_t first = 0; first < length; first += chunk) {
    loads.push_back({.sequences = {{first, std::min(chunk, length - first)}}, .rows = 0});
  }
  if (!loads.empty()) loads.back().rows = 1;
  return loads;
}

}  // namespace tessera::serve
