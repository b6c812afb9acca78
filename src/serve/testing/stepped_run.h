// For tests: a scheduler and ranks, frame by frame, so that a test can take pages away or end an
// answer between any two of them, and see the logits of every row.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "serve/batch/scheduler.h"
#include "serve/ranks/local_frames.h"
#include "serve/testing/served_model.h"

namespace tessera::serve::testing {

class SteppedRun {
 public:
  // `runner` keeps logits, and must outlive it.
  SteppedRun(LocalFrameRunner& runner, const BatchOptions& options);

  void add(const BatchRequest& request);
  // Called once for every frame, with its number: behind its start where that is even, else once
  // its rows were taken. May preempt and end answers.
  std::function<void(int64_t frame)> on_frame;
  // Until nothing is left to compute. Tokens are drawn by request, choice and position.
  void run();

  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] int64_t frames() const { return frames_; }
  [[nodiscard]] int64_t copies() const { return copies_; }  // of pages
  // Answers that have not ended.
  [[nodiscard]] std::vector<std::pair<GenerationId, int>> answers() const;
  void end(GenerationId id, int choice);

  // The largest difference between a row's logits and those that training's forward gives to the
  // same text, relative to the largest of the row; infinite where an answer that was not ended by
  // the test lacks rows.
  [[nodiscard]] double difference_from(const ServedModel& model) const;
  [[nodiscard]] int64_t rows() const;
  [[nodiscard]] int64_t tokens(GenerationId id, int choice) const;  // of prompt and answer

 private:
  struct Answer {
    Text text;
    int64_t prompt = 0, most = 0;
    bool ended = false;                         // by the test
    std::map<int64_t, std::vector<double>> at;  // logits by the position of their token
  };

  void take();

  LocalFrameRunner& runner_;
  Scheduler scheduler_;
  std::map<std::pair<GenerationId, int>, Answer> answers_;
  struct UnderWay {
    int64_t frame;
    std::vector<RowOwner> owners;
  };
  std::deque<UnderWay> under_way_;
  int64_t frames_ = 0, copies_ = 0;
};

}  // namespace tessera::serve::testing
