#include "launch/agent/restart_ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"

namespace tessera {
namespace {

std::string place_of(const RankLoss& loss) {
  if (loss.section == RunSection::kSetup) return "before its first step";
  return fmt::format("in {}step {}", loss.section == RunSection::kStep ? "" : "the end of ",
                     loss.step);
}

std::string describe(const RankLoss& loss) {
  return fmt::format("rank {} {} {}", loss.rank, tessera::describe(loss.exit), place_of(loss));
}

}  // namespace

RestartLedger::RestartLedger(int restarts, const PastFailures& past)
    : restarts_(restarts), left_(std::max(0, restarts - past.used)), losses_(past.losses) {
  for (const RankLoss& loss : losses_) {
    (void)count_step(loss);
    if (loss.section != RunSection::kSetup) last_step_ = loss.step;
  }
}

PastFailures RestartLedger::past() const {
  const size_t left_out = losses_.size() - std::min(losses_.size(), PastFailures::kMostLosses);
  return {.used = restarts_ - left_,
          .losses = {losses_.begin() + static_cast<std::ptrdiff_t>(left_out), losses_.end()}};
}

size_t RestartLedger::count_step(const RankLoss& loss) {
  if (!loss.curable || loss.section == RunSection::kSetup) return 0;
  std::vector<int>& ranks = failed_[loss.step];
  ranks.push_back(loss.rank);
  return ranks.size();
}

RestartLedger::Answer RestartLedger::after(const RankLoss& loss) {
  const bool before_a_step = loss.section == RunSection::kSetup;
  const bool recovered = last_step_ && !before_a_step && loss.step > *last_step_ + kGoodSteps;
  if (recovered) left_ = restarts_;
  const bool same_cause = before_a_step && recoveries_ > 0 && !losses_.empty() &&
                          loss.generation == losses_.back().generation + 1;
  losses_.push_back(loss);
  if (!loss.curable) return Answer::kEnd;
  if (!before_a_step) last_step_ = loss.step;
  if (count_step(loss) >= kPoisonFailures) return Answer::kPoison;
  recoveries_ = same_cause ? recoveries_ - 1 : before_a_step ? 0 : kRecoveries;
  if (same_cause) return Answer::kRestart;
  if (left_ == 0) return Answer::kEnd;
  --left_;
  return Answer::kRestart;
}

std::string RestartLedger::history() const {
  if (losses_.size() < 2) return "";
  std::string text;
  for (size_t i = 0; i + 1 < losses_.size(); ++i) {
    text += fmt::format("{} {}", i == 0 ? "" : ",", describe(losses_[i]));
  }
  return fmt::format("; started again {} before, after{}",
                     count_of(static_cast<int64_t>(losses_.size()) - 1, "time"), text);
}

std::string RestartLedger::poison(int64_t step,
                                  const std::function<std::string(int64_t)>& describe_step) const {
  std::string ranks;
  const std::vector<int>& failed = failed_.at(step);
  for (size_t i = 0; i < failed.size(); ++i) {
    ranks += fmt::format("{}{}", i == 0 ? "" : i + 1 == failed.size() ? " and " : ", ", failed[i]);
  }
  const std::string read = describe_step ? describe_step(step) : "";
  return fmt::format("step {} has failed {} times, on ranks {}{}, and is not tried again", step,
                     failed.size(), ranks, read.empty() ? "" : " (" + read + ")");
}

}  // namespace tessera
