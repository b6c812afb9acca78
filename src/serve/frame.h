// What all ranks do at once: a flat list of tokens of any sequences (chunks of prompts, and one
// token of each text that is being written), computed by one Program. Frames run in the order of
// their numbers on every rank; what a frame reads from the cache, it or a frame before it wrote.
#pragma once

#include <cstdint>
#include <vector>

#include "serve/sampling.h"

namespace tessera::serve {

// The tokens of one sequence in a frame: consecutive, and the last ones that its cache then holds.
struct FrameSequence {
  int32_t num_tokens = 0;      // in this frame, behind those of the sequences before it
  int32_t cached = 0;          // tokens of it that the cache held before this frame
  std::vector<int32_t> pages;  // of the cache, for tokens [0, cached + num_tokens)
};

// A token of the frame whose logits are wanted.
struct FrameRow {
  int32_t token_index = 0;  // in Frame::tokens
  RowSampling sampling;
};

// A page that is copied, on every rank, before anything of the frame is computed.
struct PageCopy {
  int32_t from = 0;
  int32_t to = 0;
};

struct Frame {
  uint64_t number = 0;
  std::vector<int32_t> tokens;  // of all sequences
  std::vector<FrameSequence> sequences;
  std::vector<FrameRow> rows;
  std::vector<PageCopy> copies;
  // FrameRunner::allow() is called for it: ranks compute all that needs no mask until then.
  bool masks_follow = false;
};

// What the rows of a frame may become, where a grammar says it: RowSampling::allowed of each row;
// an empty one leaves the row as it came with the frame.
struct FrameMasks {
  uint64_t number = 0;  // of the frame
  std::vector<std::vector<uint32_t>> rows;
};

struct FrameResult {
  uint64_t number = 0;
  std::vector<SampledToken> tokens;  // one for each row of the frame
};

// What the ranks were made for. Equal on all of them.
struct ServeShape {
  int64_t vocab = 0;           // of the model, without padding
  int64_t max_context = 0;     // tokens of one sequence
  int64_t page_size = 16;      // tokens of one page
  int64_t num_pages = 0;       // of the cache, the least that any rank has
  int64_t max_tokens = 2048;   // of one frame
  int64_t max_sequences = 64;  // of one frame
  int64_t max_rows = 64;       // of one frame
  int stages = 1;              // of the pipeline: so many frames can be under way at once
};

// Runs frames on all ranks. Not thread-safe, but where it is said: the engine's thread alone calls
// it.
class FrameRunner {
 public:
  virtual ~FrameRunner() = default;
  [[nodiscard]] virtual const ServeShape& shape() const = 0;
  // Hands a frame to all ranks, and returns as soon as they have it. At most shape().stages frames
  // may be under way. Throws Error where a rank is lost; the runner is dead from then on.
  virtual void start(const Frame& frame) = 0;
  // For the frame that was started last, once, where it says that masks follow. Throws as start().
  virtual void allow(FrameMasks masks) = 0;
  // What the oldest frame that is under way gave; waits for it. Bounded by the runner's timeout.
  // Throws Error, which names the rank, where one is lost or hangs.
  virtual FrameResult finish() = 0;
  // Changes while ranks come further, also inside of a frame. From any thread.
  [[nodiscard]] virtual uint64_t progress() const { return 0; }
};

}  // namespace tessera::serve
