// Faults provoked on purpose, so that tests can see them found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/world.h"
#include "train/weights/weights.h"

namespace tessera {

struct Injection {
  enum class Kind {
    kNone,
    kNan,          // writes NaN into a tensor after it is computed
    kDropCast,     // a collective moves nothing
    kDropMessage,  // what one pipeline stage sends to another arrives as zeros
    kRollShard,    // one rank starts with its part of a weight rolled by one row
    kScaleGrad,    // the gradient of a weight is multiplied by the size of an axis
    kScaleValue,   // a value is multiplied by the size of an axis
    kRollValue,    // the elements of a value are moved on by one place
    kGpuFault,     // the GPU touches memory that is not there before it computes a tensor
    kLocalMask,    // a dropout mask is drawn by the place on the rank, not in the global batch
  };
  Kind kind = Kind::kNone;
  std::string tensor;
  int64_t step = 1;
  int rank = 0;
  Axis axis = Axis::kDp;
};

// "nan:tensor=layers.0.q,step=2,rank=1", "drop-cast:tensor=layers.0.o.sum",
// "drop-message:tensor=layers.0.down.sum",
// "roll-shard:tensor=model.norm.weight,rank=1", "scale-grad:tensor=layers.0.q,axis=dp",
// "scale-value:tensor=layers.0.gates,axis=dp", "roll-value:tensor=layers.0.slots",
// "local-mask:tensor=layers.0.o.dropped", "gpu-fault:tensor=layers.1.down,step=3,rank=0".
Injection parse_injection(const std::string& text);

// drop-cast: turns the collectives of that name into local copies. drop-message: the messages of
// that name. local-mask: ops of that name forget where in the global batch they are. ConfigError if
// there are none.
void inject_into_programs(const Injection& injection, std::vector<Program>& programs);
// roll-shard: `rank` reads its weights from the returned source.
TensorSource inject_into_weights(const Injection& injection, int rank, TensorSource source);
// gpu-fault: of `rank`.
std::optional<GpuFault> fault_of(const Injection& injection, int rank);
// nan, scale-grad, scale-value, roll-value: what to do after each instruction of a step; empty when
// there is nothing to do.
Executor::Probe injection_probe(const Injection& injection, Executor& executor, int64_t step);

}  // namespace tessera
