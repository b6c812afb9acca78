// Places where a run can be made to fail on purpose, so that tests see it survive. Nothing is
// looked at, and nothing costs time, where no fault is armed.
//
//   TESSERA_FAULT="step.backward:rank=2,step=7,act=kill;save.stage:rank=0,at=3,act=kill"
//
//   point    rdzv.join, comm.init, load, load.chunk (before a box is read), step.begin,
//   step.forward, step.backward, step.update,
//            step.collective, step.end, eval, save.stage, save.change (of a file or
//            folder), save.write, save.sync, save.rename, snapshot.copy, snapshot.seal, end;
//            of a server: serve.load, serve.frame, serve.result (`step` is the frame's number)
//   rank     which (default: all)
//   step     which (default: all)
//   at       only the so-many-th time that a rank passes the point (default: every time)
//   generation  of the ranks (default 1: those of a restart are left alone; 0: all)
//   act      kill, stop (SIGSTOP), delay=MS, spin (for ever), fail (an error of the rank),
//            errno=ENOSPC|EIO|EFBIG|EROFS|EDQUOT (what a disk says, at save.*),
//            flip (one bit of a weight, at step.end; of a snapshot, at snapshot.seal)
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct Fault {
  enum class Act : uint8_t { kKill, kStop, kDelay, kSpin, kFail, kErrno, kFlip };
  std::string point;
  int rank = -1;       // -1: all
  int64_t step = -1;   // -1: all
  int64_t at = 0;      // 0: every time
  int generation = 1;  // 0: all
  Act act = Act::kKill;
  std::chrono::milliseconds delay{0};
  int error = 0;  // ENOSPC, ...
};

// Throws ConfigError naming what is wrong. Empty text: none.
std::vector<Fault> parse_faults(const std::string& text);

// Those of one rank, whose threads may pass points at the same time.
class Failpoints {
 public:
  Failpoints() = default;
  Failpoints(const std::vector<Fault>& all, int rank, int generation);

  [[nodiscard]] bool armed() const { return !faults_.empty(); }
  // Whether a fault may lie at one of the points that begin with `prefix` in this step.
  [[nodiscard]] bool armed(std::string_view prefix, int64_t step) const;
  // Does what is armed here; returns whether the caller is to flip a bit. Throws Error (fail).
  bool pass(std::string_view point, int64_t step = -1);

 private:
  struct Armed {
    explicit Armed(Fault one) : fault(std::move(one)) {}
    Fault fault;
    std::atomic<int64_t> passed{0};
  };
  std::deque<Armed> faults_;
};

}  // namespace tessera
