// `train --elastic`: a run whose number of replicas changes from one generation to the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/run_state.h"
#include "launch/environment.h"
#include "launch/join/rank_mode.h"
#include "spec/run_spec.h"

namespace tessera {

// Bounds of parallel.dp.
struct ElasticBounds {
  int64_t least = 0, most = 0;  // 0: not elastic
  int64_t grow_after = 0;  // good steps until lost replicas come back; 0: SIGUSR2 alone says so
  [[nodiscard]] bool on() const { return most > 0; }
};

// "min=2,max=8" or "min=2,max=8,grow=100"; empty: not elastic. ConfigError.
ElasticBounds parse_elastic(const std::string& text);

// Throws ConfigError where the run cannot change its number of replicas.
void require_elastic(const std::string& text, int64_t restarts, const RunSpec& spec, RankMode mode);

// The number of replicas that the agent has told this process, in place of the run file's. Whether
// it has.
bool hear_replicas(const Environment& environment, RunSpec& spec);

// The numbers of hosts that the run may have, each with as many ranks as with `hosts`: those with
// whole replicas within the bounds. Throws ConfigError where no fewer and no more hosts than these
// would do.
std::vector<int> host_sizes(const ElasticBounds& bounds, const RunSpec& spec, int hosts);

// The agent's side: how many ranks there are and may be.
class ElasticRun {
 public:
  ElasticRun(const ElasticBounds& bounds, const RunSpec& spec);
  // Ranks of the next generation, when `lost` ones have no spare: without their replicas, but
  // never fewer than the least.
  [[nodiscard]] int without(int ranks, const std::vector<int>& lost) const;
  // Ranks that there may be.
  [[nodiscard]] int room(int ranks, const RunState& run, bool asked);
  void resize(int ranks) { ranks_ = ranks; }
  void begin_generation(Environment& environment);
  // Why there was room the last time: "SIGUSR2", "100 good steps".
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  [[nodiscard]] int64_t replica_of(int rank, int64_t replicas) const;

  ElasticBounds bounds_;
  int64_t ranks_of_replica_;
  int64_t groups_;       // that do the same: train.redundancy
  int64_t inner_ranks_;  // that follow each other in one replica
  int64_t ranks_;
  int64_t first_step_ = -1;  // that was done when this generation was seen first
  std::string why_;
};

}  // namespace tessera
