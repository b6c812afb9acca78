#include "launch/agent/agent.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "launch/agent/rank_generation.h"
#include "launch/agent/restart_ledger.h"
#include "launch/oom_score.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

}  // namespace

void AgentOptions::validate() const {
  require_config(ranks >= 1, "ranks is {}: a job has at least one", ranks);
  require_config(part.first_rank >= 0 && part.first_rank + ranks_here() <= ranks,
                 "{} ranks from {} on are here, of {}", ranks_here(), part.first_rank, ranks);
  require_config(threads_per_rank >= 1, "threads_per_rank is {}: it must be at least 1",
                 threads_per_rank);
  require_config(spares >= 0 && (spares == 0 || restarts > 0),
                 "spares is {} and restarts is {}: a spare takes a place only in a restart", spares,
                 restarts);
  require_config(restarts >= 0, "restarts is {}: it must not be negative", restarts);
  const bool waits = watch.stopped_after > milliseconds(0) && watch.hung_after > milliseconds(0) &&
                     watch.stopped_grace >= milliseconds(0);
  require_config(waits, "the bounds of stopped and hung ranks must be more than 0");
  require_config(grace >= milliseconds(0), "grace is {} ms: it must not be negative",
                 grace.count());
  require_config(leave_time >= milliseconds(0), "leave_time is {} ms: it must not be negative",
                 leave_time.count());
}

int run_agent(const AgentOptions& options) {
  options.validate();
  open_standard_descriptors();
  raise_oom_score(kAgentOomScore);
  // Over all generations: a signal that comes between two of them is the next one's.
  SignalInbox signals;
  SparePool spares;
  std::vector<int> replaced;
  RestartLedger ledger(options.restarts);
  AgentOptions now = options;
  const auto resize = [&](int ranks, int generation, const std::string& reason) {
    if (ranks == now.ranks) return;
    if (options.resize.on_resize) {
      options.resize.on_resize(now.ranks, ranks, generation, reason);
    }
    now.ranks = ranks;
    replaced.clear();
  };
  for (int generation = options.part.generation;; ++generation) {
    RankGeneration agent(now, signals, spares, generation, replaced);
    JobEnd end = agent.run();
    if (agent.growing_to() > 0 && options.resize.grow) {
      resize(agent.growing_to(), generation + 1, "");
      continue;
    }
    if (end.culprit) {
      const RankLoss loss = agent.loss(end);
      if (options.on_loss) options.on_loss(loss, agent.run_state());
      const RestartLedger::Answer answer = ledger.after(loss);
      if (answer == RestartLedger::Answer::kRestart && !agent.interrupted()) {
        replaced = agent.lost_ranks(end);
        if (options.on_restart) options.on_restart(loss, generation + 1, ledger.left());
        const auto with_spare = std::min(replaced.size(), static_cast<size_t>(options.spares));
        const std::vector<int> gone(replaced.begin() + static_cast<std::ptrdiff_t>(with_spare),
                                    replaced.end());
        if (options.resize.shrink && !gone.empty()) {
          resize(options.resize.shrink(now.ranks, gone), generation + 1, loss.reason);
        }
        continue;
      }
      if (answer == RestartLedger::Answer::kPoison) {
        end.exit_code = static_cast<int>(ExitCode::kPoison);
        end.message = ledger.poison(loss.step, options.describe_step) + ": " + end.message;
      } else {
        end.message += ledger.history();
      }
    }
    if (options.on_end) options.on_end(agent.run_state());
    agent.tell_end(end);
    return end.exit_code;
  }
}

}  // namespace tessera
