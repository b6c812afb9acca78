// The scheduler and a pipeline of ranks, played without either a model or a clock: which frame
// every stage computes, and from when to when, where a stage takes a fixed time for a frame and
// some for each of its tokens. Frames are planned as the engine plans them: as soon as fewer are
// under way than there are stages.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "serve/batch/batch_options.h"

namespace tessera::serve {

struct PlayedRequest {
  double arrival = 0;
  int64_t prompt_tokens = 1, answer_tokens = 1;
};

struct StageSeconds {
  double frame = 1;  // of any frame
  double token = 0;  // each of its tokens adds
};

// Tokens [first, first + count) of a request: of its prompt, or the next one of its answer.
struct PlayedPart {
  int64_t request = 0, first = 0, count = 0;
  bool is_answer = false;
};

struct PlayedFrame {
  double planned = 0;
  std::vector<PlayedPart> parts;
  std::vector<std::pair<double, double>> stages;  // from when to when each computes it
  int64_t tokens = 0, rows = 0;
  int64_t pages_used = 0;
};

// How long each stage computes a frame, and what it gives takes to the next one.
struct FrameSpan {
  std::vector<double> stages;
  double message = 0;
};
// Asked for a frame whose times are not known yet.
using SpanOfFrame = std::function<FrameSpan(const PlayedFrame& frame)>;

struct PlayLimits {
  int64_t most_frames = 0;
  int64_t at_once = 0;  // requests that may be there together; the next one comes later. 0: any
};

struct PlayedServing {
  std::vector<PlayedFrame> frames;
  std::vector<double> arrival, first_token, end;  // by request
  std::vector<double> gaps;                       // between two tokens of an answer, of all answers
  double makespan = 0;
  uint64_t preemptions = 0, recomputed_tokens = 0;
  // The time that a stage computes.
  [[nodiscard]] double busy(size_t stage) const;
};

// Requests in the order of their arrival. Throws ConfigError where one could not run alone, and
// where there are more frames than `most_frames`.
PlayedServing play_serving(const ServeShape& shape, const BatchOptions& options,
                           const std::vector<PlayedRequest>& requests, const StageSeconds& seconds,
                           int64_t most_frames);
PlayedServing play_serving(const ServeShape& shape, const BatchOptions& options,
                           const std::vector<PlayedRequest>& requests, const SpanOfFrame& span_of,
                           const PlayLimits& limits);

}  // namespace tessera::serve
