#include "serve/ranks/warm_up.h"

#include <algorithm>
#include <memory>
#include <numeric>

namespace tessera::serve {
namespace {

constexpr int64_t kTokens = 64;

Frame frame_of(int64_t tokens, int64_t page_size) {
  Frame frame;
  frame.tokens.assign(static_cast<size_t>(tokens), 0);
  FrameSequence sequence;
  sequence.num_tokens = static_cast<int32_t>(tokens);
  sequence.pages.resize(static_cast<size_t>((tokens + page_size - 1) / page_size));
  std::iota(sequence.pages.begin(), sequence.pages.end(), 0);
  frame.sequences.push_back(std::move(sequence));
  RowSampling sampling;
  sampling.how = std::make_shared<const Sampling>(Sampling{.temperature = 0});
  sampling.position = tokens;
  frame.rows.push_back(
      {.token_index = static_cast<int32_t>(tokens - 1), .sampling = std::move(sampling)});
  return frame;
}

}  // namespace

std::vector<Frame> warm_up_frames(const ServeShape& shape) {
  // A text must have room for the token that follows.
  const int64_t tokens = std::min(
      {kTokens, shape.max_tokens, shape.max_context - 1, shape.num_pages * shape.page_size});
  std::vector<Frame> frames;
  frames.push_back(frame_of(1, shape.page_size));
  if (tokens > 1) frames.push_back(frame_of(tokens, shape.page_size));
  return frames;
}

}  // namespace tessera::serve
