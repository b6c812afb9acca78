// Whether a job that lost a rank is started again. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/agent/rank_loss.h"

namespace tessera {

// A step that fails so often is not tried again: what it reads or computes is at fault.
inline constexpr int kPoisonFailures = 3;
// So many steps beyond the last failure show that its cause is gone: all restarts may be used anew.
inline constexpr int64_t kGoodSteps = 1000;

// A rank that is lost while the run recovers from another loss, before its first step, is counted
// to that one: so many times, so that a recovery that always fails comes to an end.
inline constexpr int kRecoveries = 2;

// What a ledger hands on to the one that goes on after it.
struct PastFailures {
  static constexpr size_t kMostLosses = 64;
  int used = 0;                       // restarts
  std::vector<RankLoss> losses = {};  // the last kMostLosses
};

class RestartLedger {
 public:
  explicit RestartLedger(int restarts, const PastFailures& past = {});

  enum class Answer : uint8_t {
    kRestart,
    kEnd,     // no restart is left, or none would help
    kPoison,  // this step has failed kPoisonFailures times
  };
  // Counts the loss, and the restart where that is the answer and the loss has a cause of its own.
  Answer after(const RankLoss& loss);

  [[nodiscard]] int left() const { return left_; }
  [[nodiscard]] PastFailures past() const;
  // What the message of a job that ends adds: "; started again 2 times before: after rank 2 was
  // killed by SIGKILL in step 5, ..."; empty where it was not.
  [[nodiscard]] std::string history() const;
  // "step 7 has failed 3 times, on ranks 2, 2 and 0 (WHAT IT READ), and is not tried again". Null:
  // what it read is not said.
  [[nodiscard]] std::string poison(int64_t step,
                                   const std::function<std::string(int64_t)>& describe_step) const;

 private:
  // How often this step has failed by now; 0: before the first one, of which nothing is known.
  size_t count_step(const RankLoss& loss);

  int restarts_;
  int left_;
  int recoveries_ = 0;                // that may still fail without a restart of their own
  std::optional<int64_t> last_step_;  // that failed
  std::vector<RankLoss> losses_;
  std::map<int64_t, std::vector<int>> failed_;  // ranks, by step
};

}  // namespace tessera
