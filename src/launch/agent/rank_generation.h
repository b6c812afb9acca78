// One generation of ranks: started, watched, and ended in order.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/shm/host_memory.h"
#include "comm/shm/shm_world.h"
#include "launch/agent/agent.h"
#include "launch/agent/child_watch.h"
#include "launch/agent/job_end.h"
#include "launch/agent/output/output_forwarder.h"
#include "launch/agent/rank_watch.h"
#include "launch/agent/signal_inbox.h"
#include "launch/agent/spares.h"
#include "launch/agent/spawn.h"
#include "launch/cores.h"
#include "launch/poll_set.h"
#include "launch/unique_fd.h"

namespace tessera {

class RankGeneration {
 public:
  // `replaced`: ranks that spares take the place of.
  RankGeneration(const AgentOptions& options, SignalInbox& signals, SparePool& spares,
                 int generation, const std::vector<int>& replaced);
  // Until all ranks are gone.
  JobEnd run();
  // What was seen of the rank because of which it failed.
  [[nodiscard]] RankLoss loss(const JobEnd& end) const;
  // That rank, and others that somebody killed or that crashed.
  [[nodiscard]] std::vector<int> lost_ranks(const JobEnd& end) const;
  [[nodiscard]] RunState run_state() const { return memory_.run_state(); }
  // Whether somebody wants the job to end, so that no other generation starts.
  [[nodiscard]] bool interrupted() const { return stop_signal_ != 0 || interrupted_; }
  // How many ranks are to be started now that these have stopped for it; 0: they have not.
  [[nodiscard]] int growing_to() const { return growing_to_; }
  // The last words of the job.
  void tell_end(const JobEnd& end);

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] int lost_rank(const JobEnd& end) const;
  void start_rank(int rank, bool by_spare);
  void start_spares();
  void say_spare(pid_t pid, int rank) const;
  [[nodiscard]] SpawnRequest child_request() const;
  void wait_for_events();
  void on_signal(int signal);
  void begin_stop(int signal);
  void be_patient_until(Clock::time_point time);
  void on_end(int rank);
  void on_time();
  void look_at_ranks();
  void look_for_room();
  void make_room(int ranks);
  void take_orders();
  void obey(const RankCommand& order);
  void condemn(const RankTrouble& trouble);
  [[nodiscard]] HostSight what_is_seen() const;
  void end_growth();
  void act_on(const WatchFinding& finding);
  [[nodiscard]] std::vector<std::string> what_ranks_do() const;
  [[nodiscard]] std::vector<pid_t> running_pids() const;
  void kill_ranks();
  [[nodiscard]] std::chrono::milliseconds flush_time() const;
  [[nodiscard]] bool orderly(const ChildExit& exit) const;
  [[nodiscard]] std::chrono::milliseconds time_to_next_deadline() const;
  [[nodiscard]] std::optional<MemoryKills> kills_meanwhile() const;
  [[nodiscard]] JobEnd judge_job() const;

  const AgentOptions& options_;
  int generation_;
  Environment environment_;
  std::string executable_;
  std::vector<std::string> arguments_;
  std::string token_;
  std::optional<MemoryKills> kills_before_ = memory_kills();
  std::vector<Core> cores_;
  ShmMemory memory_;
  SignalInbox& signals_;
  SparePool& spares_;
  UniqueFd first_log_;  // of rank 0, whose output goes to two places
  OutputForwarder output_;
  UniqueFd no_input_;
  std::vector<int> replaced_;
  ChildWatch ranks_;
  PollSet poll_;

  int stop_signal_ = 0;
  bool asked_to_grow_ = false;
  int growing_to_ = 0;  // ranks; then the stop is ours
  Clock::time_point stopped_at_;
  std::optional<int> first_failed_;
  std::vector<bool> killed_;
  std::vector<ShmRankStatus> last_seen_;
  RankWatch watch_;
  std::optional<Clock::time_point> look_at_;
  std::vector<std::optional<RankTrouble>> condemned_;  // ranks that a verdict has killed
  double failed_at_ = 0;
  bool interrupted_ = false;
  std::optional<Clock::time_point> abort_at_;
  std::optional<Clock::time_point> kill_at_;
  std::optional<Clock::time_point> give_up_at_;
};

}  // namespace tessera
