// How long each instruction of a rank takes, added up over steps. On the CPU from when it starts to
// when it is done, without its waits; every number is written by the thread of its stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera {

class InstructionTimes {
 public:
  explicit InstructionTimes(size_t instructions) : seconds_(instructions, 0) {}

  void add(size_t instruction, double seconds) { seconds_[instruction] += seconds; }
  void add_step() { ++steps_; }

  [[nodiscard]] int64_t steps() const { return steps_; }
  // Mean over the steps; only between steps.
  [[nodiscard]] double seconds(size_t instruction) const {
    return steps_ == 0 ? 0 : seconds_[instruction] / static_cast<double>(steps_);
  }

 private:
  std::vector<double> seconds_;
  int64_t steps_ = 0;
};

}  // namespace tessera
