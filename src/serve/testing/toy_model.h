// A language model whose logits are a function of the whole text before them, and which has only
// what frames put into its pages to know that text by: a wrong page, a copy that was forgotten or a
// chunk that was lost gives other tokens from there on.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "serve/frame.h"

namespace tessera::serve {

// What the model makes of a token at a position, given the sum of what it made of those before.
uint64_t toy_state(int32_t token, int64_t position, uint64_t sum_before);
// What it makes of the last token of a text.
uint64_t toy_state_of(std::span<const int32_t> text);
std::vector<double> toy_logits(uint64_t state, int64_t vocab);

// The pages of one rank.
class ToyCache {
 public:
  explicit ToyCache(const ServeShape& shape);
  // The state of each row. Throws Error where the frame is not one that a rank could run.
  std::vector<uint64_t> run(const Frame& frame);

 private:
  struct Slot {
    uint64_t state = 0;
    int64_t position = -1;
  };
  Slot& slot(const FrameSequence& sequence, int64_t position);
  void check(const Frame& frame) const;

  ServeShape shape_;
  std::vector<Slot> slots_;
};

// Runs frames of it, in order, when they are asked for.
class ToyRunner : public FrameRunner {
 public:
  explicit ToyRunner(const ServeShape& shape) : shape_(shape), cache_(shape) {}
  [[nodiscard]] const ServeShape& shape() const override { return shape_; }
  void start(const Frame& frame) override;
  void allow(FrameMasks masks) override;
  FrameResult finish() override;

 private:
  ServeShape shape_;
  ToyCache cache_;
  std::deque<Frame> under_way_;
  uint64_t next_ = 1;
};

}  // namespace tessera::serve
