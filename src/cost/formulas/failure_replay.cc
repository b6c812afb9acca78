#include "cost/formulas/failure_replay.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/philox.h"
#include "cost/formulas/power.h"

namespace tessera {
namespace {

constexpr uint64_t kStream = 0xFA11;

class Player {
 public:
  Player(const FailingRun& run, uint64_t seed, bool keep_spans)
      : run_(run), seed_(seed), keep_spans_(keep_spans), spares_(run.spares) {
    draw_failure();
  }

  FailureReplay play() {
    while (progress_ < run_.work && result_.failures < kMostFailures && now_ < run_.until) {
      const bool goes_on = train() && (progress_ >= run_.work || save());
      if (!goes_on) recover();
    }
    settle(progress_);
    result_.finished = progress_ >= run_.work;
    result_.total = now_;
    return std::move(result_);
  }

 private:
  void draw_failure() {
    const double u = 1 - uniform_at(seed_, kStream, drawn_++);  // (0, 1]
    failure_ = now_ - run_.model.mtbf * natural_log(u);
  }

  void add(RunPhase phase, double seconds) {
    seconds = std::min(seconds, run_.until - now_);
    if (seconds <= 0) return;
    result_.seconds[static_cast<int>(phase)] += seconds;
    if (keep_spans_) result_.spans.push_back({phase, now_, now_ + seconds});
    now_ += seconds;
  }

  // Work whose fate is open is a span of training until a failure says otherwise.
  void work(double seconds) {
    if (keep_spans_ && seconds > 0) {
      result_.spans.push_back({RunPhase::kTrain, now_, now_ + seconds});
    }
    now_ += seconds;
    progress_ += seconds;
  }

  // To the next save or the end. False: a failure came first.
  bool train() {
    const double due = std::min(last_save_ + run_.interval, run_.work) - progress_;
    if (run_.until <= std::min(now_ + due, failure_)) {
      work(run_.until - now_);
      now_ = run_.until;  // against rounding
      return true;
    }
    if (now_ + due >= failure_) {
      work(failure_ - now_);
      return false;
    }
    work(due);
    if (progress_ + 1e-9 * run_.interval >= run_.work) progress_ = run_.work;  // against rounding
    return true;
  }

  bool save() {
    if (now_ >= run_.until) return true;
    last_save_ = progress_;
    if (now_ < safe_at_) {  // the one before is still being written
      ++result_.skipped_saves;
      return true;
    }
    finish_write(now_);
    if (now_ + run_.model.stall >= failure_ && failure_ < run_.until) {
      add(RunPhase::kSave, failure_ - now_);
      return false;
    }
    add(RunPhase::kSave, run_.model.stall);
    ++result_.saves;
    written_ = progress_;
    safe_at_ = now_ + run_.model.write;
    return true;
  }

  // What was being written is safe if it was done by `time`.
  void finish_write(double time) {
    if (time >= safe_at_) safe_ = written_;
  }

  // Work up to `kept` counts; what is beyond it was in vain.
  void settle(double kept) {
    const double lost = std::max(0.0, progress_ - kept);
    result_.seconds[static_cast<int>(RunPhase::kTrain)] += progress_ - settled_ - lost;
    result_.seconds[static_cast<int>(RunPhase::kLost)] += lost;
    settled_ = kept;
    if (!keep_spans_) return;
    double left = lost;  // the last spans of training, from the end
    for (size_t i = result_.spans.size(); i > 0 && left > 1e-9; --i) {
      RunSpan& span = result_.spans[i - 1];
      if (span.phase != RunPhase::kTrain) continue;
      const double length = span.end - span.begin;
      if (length <= left * (1 + 1e-12)) {
        span.phase = RunPhase::kLost;
        left -= length;
        continue;
      }
      const RunSpan tail{RunPhase::kLost, span.end - left, span.end};
      span.end -= left;
      result_.spans.insert(result_.spans.begin() + static_cast<std::ptrdiff_t>(i), tail);
      left = 0;
    }
  }

  // After a failure: back to what is safe, a spare, a restart; again where that fails.
  void recover() {
    finish_write(failure_);
    settle(safe_);
    progress_ = last_save_ = written_ = safe_;
    safe_at_ = now_;
    for (;;) {
      ++result_.failures;
      wait_for_spare();
      draw_failure();
      if (result_.failures >= kMostFailures || now_ >= run_.until) return;
      if (std::min(now_ + run_.model.restart, run_.until) < failure_) break;
      add(RunPhase::kRestart, failure_ - now_);
    }
    add(RunPhase::kRestart, run_.model.restart);
  }

  void wait_for_spare() {
    if (run_.spares < 0) return;
    repaired_.push_back(now_ + run_.repair);  // in the order of the failures: each takes as long
    while (!repaired_.empty() && repaired_.front() <= now_) {
      repaired_.pop_front();
      ++spares_;
    }
    if (spares_ == 0) {
      add(RunPhase::kWait, repaired_.front() - now_);
      repaired_.pop_front();
      ++spares_;
    }
    --spares_;
  }

  const FailingRun& run_;
  const uint64_t seed_;
  const bool keep_spans_;
  FailureReplay result_;
  uint64_t drawn_ = 0;
  double now_ = 0, failure_ = 0;
  // In seconds of work: done, done at the last save, being written, safe, and counted in the
  // result.
  double progress_ = 0, last_save_ = 0, written_ = 0, safe_ = 0, settled_ = 0;
  double safe_at_ = 0;  // when what is being written is safe
  int64_t spares_;
  std::deque<double> repaired_;
};

}  // namespace

FailureReplay replay_failures(const FailingRun& run, uint64_t seed, bool keep_spans) {
  return Player(run, seed, keep_spans).play();
}

}  // namespace tessera
