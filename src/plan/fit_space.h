// What may be changed of a run so that it needs less memory, one thing at a time: the space that
// fit_changes.h combines and prices.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cost/hardware/cluster.h"
#include "spec/run_spec.h"

namespace tessera {

// Changes of one subject are variations of one idea and exclude each other.
enum class FitSubject : uint8_t {
  kTensor,
  kPipeline,
  kContext,
  kExperts,
  kSchedule,
  kMicroBatch,
  kSharding,  // ZeRO stage, ranks that share the states
  kSequence,  // sequence parallelism
  kGradients,
  kRecompute,
};

struct SpaceChange {
  FitSubject subject = FitSubject::kTensor;
  // Changes a run that earlier subjects may have changed already. False where it cannot; what else
  // is wrong with the result, resolve() says.
  std::function<bool(RunSpec&)> apply;
};

// In the order in which they are applied together. `spec` must have gone through resolve(). The
// number of ranks and the batch stay.
std::vector<SpaceChange> fit_space(const RunSpec& spec, const Cluster& cluster);

// What differs in the keys that the space changes, as --set takes it. Where an axis changes, dp is
// named too: it would be filled in otherwise.
std::vector<std::string> settings_between(const RunSpec& before, const RunSpec& after);

}  // namespace tessera
