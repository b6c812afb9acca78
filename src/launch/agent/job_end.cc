#include "launch/agent/job_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "base/error.h"
#include "launch/agent/stop_code.h"
#include "launch/rank_failure.h"
#include "launch/rank_list.h"

namespace tessera {
namespace {

bool is_documented(int code) { return (code >= 1 && code <= 9) || (code >= 64 && code <= 78); }

int job_code(const RankEnd& end) {
  const bool own = end.exit && end.exit->signal == 0 && is_documented(end.exit->code);
  return own ? end.exit->code : 1;
}

bool failed(const RankEnd& end) { return !end.killed_by_agent && end.exit && end.exit->failed(); }

// The rank whose failure the others followed: the one that the reason names, else the first that
// was seen.
int culprit(const JobHistory& history) {
  const std::optional<int> named = rank_of_reason(history.reason);
  const auto size = static_cast<int>(history.ranks.size());
  if (named && *named < size && failed(history.ranks[static_cast<size_t>(*named)])) return *named;
  return *history.first_failed;
}

// "; rank 3 did not end in time and was killed", for those it applies to.
std::string late_ranks(const JobHistory& history) {
  std::vector<int> late;
  std::vector<int> undead;
  for (size_t rank = 0; rank < history.ranks.size(); ++rank) {
    if (!history.ranks[rank].exit)
      undead.push_back(static_cast<int>(rank));
    else if (history.ranks[rank].killed_by_agent)
      late.push_back(static_cast<int>(rank));
  }
  std::string text;
  if (!late.empty()) {
    text += fmt::format("; {} did not end in time and {} killed", rank_list(late),
                        late.size() == 1 ? "was" : "were");
  }
  if (!undead.empty()) {
    text += fmt::format("; {} cannot be killed: waiting inside the kernel, probably for a disk",
                        rank_list(undead));
  }
  return text;
}

// Peers that notice a death before the agent has told them of it know only that it "died".
std::string with_cause(const std::string& reason, int rank, const RankEnd& end) {
  const std::string vague = fmt::format("rank {} (pid {}) died", rank, end.pid);
  if (!reason.starts_with(vague) || !end.exit) return reason;
  return fmt::format("rank {} (pid {}) {}{}", rank, end.pid, describe(*end.exit),
                     reason.substr(vague.size()));
}

// The message of a rank that found a mistake of the user, or the tensor that is not finite, says it
// all: where the rank was meanwhile explains nothing.
bool explains_itself(const RankEnd& end) {
  if (!end.exit || end.exit->signal != 0) return false;
  const auto code = static_cast<ExitCode>(end.exit->code);
  switch (code) {
    case ExitCode::kUsage:
    case ExitCode::kDoesNotFit:
    case ExitCode::kDiverged:
    case ExitCode::kCorrupt:
    case ExitCode::kAbsent:
    case ExitCode::kIo:
    case ExitCode::kVersion:
      return true;
    default:
      return false;
  }
}

bool all_gone(const JobHistory& history) {
  return std::all_of(history.ranks.begin(), history.ranks.end(),
                     [](const RankEnd& end) { return end.exit.has_value(); });
}

bool killed_by_others(const RankEnd& end) {
  return end.exit && end.exit->signal == SIGKILL && !end.killed_by_agent && !end.killed_by_verdict;
}

JobEnd judge_stopped(const JobHistory& history) {
  const std::string stopped = fmt::format("stopped by {}", signal_name(history.stop_signal));
  std::string details = late_ranks(history);
  if (!history.reason.empty() && history.reason != stopped && history.first_failed) {
    details = fmt::format("; while ending: {}{}", history.reason, details);
  }
  return {.exit_code = stop_code(history.stop_signal, history.checkpointed),
          .message = details.empty() ? "" : stopped + details};
}

}  // namespace

std::string describe_rank_end(int rank, const RankEnd& end) {
  std::string text = fmt::format("rank {} (pid {}) {}", rank, end.pid,
                                 end.exit ? describe(*end.exit) : "does not end");
  if (!end.last_call.empty()) text += fmt::format("; its last call was {}", end.last_call);
  return text;
}

JobEnd judge(const JobHistory& history) {
  if (history.stop_signal != 0) return judge_stopped(history);
  if (!history.first_failed) return {};
  const int rank = culprit(history);
  const RankEnd& end = history.ranks[static_cast<size_t>(rank)];
  std::string message = with_cause(history.reason, rank, end);
  if (message.empty()) {
    message = describe_rank_end(rank, end);
    if (end.exit->signal == 0) message += "; it gave no reason";
  } else if (!end.last_call.empty() && !explains_itself(end) &&
             message.find(end.last_call) == std::string::npos) {
    message += fmt::format("; the last call of rank {} was {}", rank, end.last_call);
  }
  if (killed_by_others(end) && !history.if_killed.empty()) message += "; " + history.if_killed;
  return {.exit_code = job_code(end),
          .message = message + late_ranks(history),
          .culprit = rank,
          .curable = !explains_itself(end) && all_gone(history)};
}

}  // namespace tessera
