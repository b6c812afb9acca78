// How long each instruction of a rank takes, added up over steps, and when it ran in the last one.
// On the CPU from when it starts to when it is done, without its waits; every number is written by
// the thread of its stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera {

class InstructionTimes {
 public:
  // Seconds of this machine's steady clock.
  struct Span {
    double begin = 0, end = 0;
  };

  explicit InstructionTimes(size_t instructions)
      : seconds_(instructions, 0), spans_(instructions) {}

  void add(size_t instruction, double seconds) { seconds_[instruction] += seconds; }
  void add(size_t instruction, Span span) {
    add(instruction, span.end - span.begin);
    spans_[instruction] = span;
  }
  void add_step() { ++steps_; }

  [[nodiscard]] int64_t steps() const { return steps_; }
  // Mean over the steps; only between steps.
  [[nodiscard]] double seconds(size_t instruction) const {
    return steps_ == 0 ? 0 : seconds_[instruction] / static_cast<double>(steps_);
  }
  // By instruction, in the last step; only between steps. All 0 on devices that do not tell.
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }

 private:
  std::vector<double> seconds_;
  std::vector<Span> spans_;
  int64_t steps_ = 0;
};

}  // namespace tessera
