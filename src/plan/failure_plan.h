// What failures cost a run on a cluster, and how often it should save: the closed forms of
// cost/formulas/failures.h with the times that its own checkpoint takes there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/formulas/failures.h"
#include "cost/hardware/cluster.h"
#include "cost/step/estimate.h"
#include "spec/run_spec.h"

namespace tessera {

// As people write times: "50000h", "30s"; empty: guessed, and listed among the guesses.
struct FailureFlags {
  std::string mtbf_device = "";  // between failures of one device
  std::string save = "";         // training stands still for so long in a save, which is safe then
  std::string restart = "";      // from a failure until training goes on
  const char* mtbf_flag = "--mtbf-device";  // what messages call the first
  [[nodiscard]] bool any() const {
    return !mtbf_device.empty() || !save.empty() || !restart.empty();
  }
};

struct FailurePlan {
  FailureModel model;            // of the whole run
  double mtbf_device_s = 0;      // of one device
  int64_t checkpoint_bytes = 0;  // that all ranks together write in a save
  int64_t every = 1;             // steps from one save to the next
  double interval_s = 0;         // the same as time of training
  double goodput = 0;            // useful share of the time
  // Failures come so often that next to nothing gets done.
  [[nodiscard]] bool never_ends() const { return goodput < 1e-3; }
};

// Weights and states of the optimizer, each element once and without padding: what a checkpoint
// holds, without its headers.
int64_t checkpoint_bytes(const RunSpec& spec, int64_t num_parameters);

// For a run that has all of the cluster's devices. What flags leave open is guessed and added to
// `guesses`. Throws ConfigError for a flag that is no time.
FailurePlan plan_failures(const RunSpec& spec, int64_t num_parameters, const Cluster& cluster,
                          double step_s, const FailureFlags& flags, std::vector<Guess>& guesses);

// The mean time between failures, the save and the restart of such a run; the interval is not
// chosen. `flags` and `guesses` as above.
FailurePlan price_failures(const RunSpec& spec, int64_t num_parameters, const Cluster& cluster,
                           const FailureFlags& flags, std::vector<Guess>& guesses);

}  // namespace tessera
