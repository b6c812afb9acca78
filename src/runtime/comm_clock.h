// How long a rank communicates, and how much of that it notices: time by group and operation.
// Busy is the time inside the calls. Exposed is the time that the compute stream stands still for
// an event of another stream, or for the rest of the communication when it has nothing left to do;
// waiting for a slower rank is part of both.
//
// Each number is written by one thread: busy by the stream of the call, exposed by compute.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "compile/program/program.h"

namespace tessera {

struct CommTime {
  std::string group;
  std::string op;
  double busy_s = 0;
  double exposed_s = 0;
};

class CommClock {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CommClock(const Program& program);

  void add_busy(size_t instruction, Clock::duration time);
  // `event`: what compute waited for.
  void add_exposed(int event, Clock::duration time);
  // Compute is done with the step and waits for the end of `stream`.
  void add_tail(StreamKind stream, Clock::duration time);

  // Since the start, or the last reset. Sorted by group and operation. Only between steps.
  [[nodiscard]] std::vector<CommTime> times() const;
  void reset();
  // Whether time counts from now on. Only between steps.
  void count(bool on) { counts_ = on; }

 private:
  struct Row {
    std::string group;
    std::string op;
    Clock::duration busy{};
    Clock::duration exposed{};
  };
  Row* row_of(int instruction);

  bool counts_ = true;
  std::vector<Row> rows_;
  std::vector<int> row_of_;                 // by instruction; -1: a kernel
  std::vector<int> signaller_;              // by event: the instruction
  std::array<int, kNumStreams> last_of_{};  // by stream: its last instruction, or -1
};

}  // namespace tessera
