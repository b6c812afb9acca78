// What the ranks of a server computed when, as a trace for ui.perfetto.dev: a process per rank, a
// slice per frame, with what was in it, and slices of their own for what it waited for other stages
// of the pipeline. Chunks of one prompt lie one behind the other on a stage, and side by side on
// all stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "serve/frame.h"
#include "serve/ranks/frame_times.h"

namespace tessera::serve {

// Bounded: the first frames are kept.
class FrameTrace {
 public:
  explicit FrameTrace(int ranks, size_t most_frames = 100'000)
      : ranks_(ranks), most_frames_(most_frames) {}

  void add(const Frame& frame);
  void add(std::span<const RankFrameTimes> times);

  // A frame with the number 0 warms up and is none of anybody's.
  [[nodiscard]] std::string json() const;

 private:
  struct Sequence {
    int32_t first_page = 0;  // which tells sequences apart, while they last
    int32_t cached = 0;
    int32_t tokens = 0;
  };

  int ranks_;
  size_t most_frames_;
  std::map<uint64_t, std::vector<Sequence>> frames_;
  std::vector<RankFrameTimes> times_;
};

// Runs frames on ranks that tell their times, and keeps a trace of them.
class TracingFrameRunner final : public FrameRunner {
 public:
  // The trace is `trace`'s owner's: it may be read once this is gone.
  TracingFrameRunner(std::unique_ptr<TimedFrameRunner> inner, std::shared_ptr<FrameTrace> trace)
      : inner_(std::move(inner)), trace_(std::move(trace)) {}
  [[nodiscard]] const ServeShape& shape() const override { return inner_->shape(); }
  void start(const Frame& frame) override;
  void allow(FrameMasks masks) override { inner_->allow(std::move(masks)); }
  FrameResult finish() override;
  [[nodiscard]] uint64_t progress() const override { return inner_->progress(); }

 private:
  std::unique_ptr<TimedFrameRunner> inner_;
  std::shared_ptr<FrameTrace> trace_;
};

}  // namespace tessera::serve
