// Logical tensors (Hugging Face names and shapes) in and out of the ranks' buckets.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/world.h"

namespace tessera {

// Fills `out` with elements [first, first + out.size()) of a logical tensor, row-major.
using TensorSource =
    std::function<void(const LogicalTensor& tensor, int64_t first, std::span<double> out)>;

// Normal values by Philox, keyed by (seed, name, element): the same on every mesh. Norm weights are
// 1, biases 0; projections back into the residual stream are scaled down by sqrt(2 * layers).
TensorSource initial_weights(const ModelSpec& model, uint64_t seed);
// Like them, but some thousand values over and over: billions of weights in seconds, to measure a
// model that nobody has trained.
TensorSource repeated_weights(const ModelSpec& model, uint64_t seed);

// Values of a Hugging Face folder, or of a checkpoint. Throws Error unless it holds exactly the
// model's tensors, with their shapes: headers alone are read for that, so that a mistake is found
// before memory is taken.
TensorSource hf_weights(const std::string& folder, const ParameterLayout& layout);

// Fills this rank's weights (and master weights); padding becomes zero.
void load_weights(Executor& executor, const StepGraph& step, const TensorSource& source);

struct LogicalValues {
  LogicalTensor tensor;
  std::vector<double> values;
};
enum class StateKind { kWeights, kGradients };

// Whole tensors put together from the ranks that own them, in the order of the model. Gradients are
// sums over tokens, as the optimizer reads them. Call between steps.
std::vector<LogicalValues> gather_state(World& world, StateKind kind);

// Writes all weights, in the type they are trained in, as a safetensors file. Every rank of the
// control group calls it; rank 0 writes, with one tensor in memory at a time. No rank waits for
// another longer than some megabytes take. Returns, on every rank, why rank 0 could not write the
// file; empty: it is there. `on_growth` is called now and then, when there is more of it.
[[nodiscard]] std::string try_save_weights(const std::string& path, const StepGraph& step,
                                           const Executor& executor, Communicator& control,
                                           const std::function<void()>& on_growth = nullptr);
// The same; throws Error, on every rank, where the file cannot be written.
void save_weights(const std::string& path, const StepGraph& step, const Executor& executor,
                  Communicator& control);

}  // namespace tessera
