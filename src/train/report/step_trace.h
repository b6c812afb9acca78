// When every instruction of a few steps ran, on every rank: what a trace of a real run is made of.
// Each rank keeps its own times until the end; then rank 0 gets them all.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "compile/step.h"
#include "runtime/device/instruction_times.h"

namespace tessera {

struct StepRange {
  int64_t first = 0, last = -1;  // both are in it

  [[nodiscard]] bool empty() const { return last < first; }
  [[nodiscard]] bool contains(int64_t step) const { return step >= first && step <= last; }
  [[nodiscard]] int64_t count() const { return empty() ? 0 : last - first + 1; }
};

// "3..5", or "4". Throws ConfigError with the flag that it is the value of.
StepRange parse_step_range(const std::string& text, std::string_view flag = "--trace-steps");

struct TracedSteps {
  using Spans = std::vector<InstructionTimes::Span>;  // by instruction, on rank 0's clock
  struct Step {
    int64_t step = 0;
    std::vector<Spans> ranks;  // by rank
  };
  std::vector<Program> programs;  // by rank
  std::vector<Step> steps;
};

class StepTrace {
 public:
  // Throws ConfigError where the trace would have more events than viewers open, and on a GPU,
  // whose instructions are not timed one by one. `instructions`: of this rank.
  StepTrace(const RunSpec& spec, const StepRange& range, size_t instructions);

  [[nodiscard]] bool wants(int64_t step) const { return range_.contains(step); }
  void keep(int64_t step, const std::vector<InstructionTimes::Span>& spans);

  // All ranks call it. `same_clock`: they run on one machine. Other ranks than 0 get nothing.
  // `programs` are those of this process; rank 0 lowers what is missing.
  [[nodiscard]] TracedSteps gather(Communicator& control, bool same_clock, const StepGraph& step,
                                   const std::map<int, Program>& programs) const;

 private:
  StepRange range_;
  std::map<int64_t, std::vector<InstructionTimes::Span>> kept_;  // by step
};

}  // namespace tessera
