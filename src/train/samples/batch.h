// The tokens of one optimizer step, dealt to ranks. Which sample goes where depends on the mesh;
// which samples make up a step does not.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "data/corpus.h"
#include "data/sampler.h"
#include "runtime/executor.h"

namespace tessera {

// Fills tokens and labels (both seq_len long; label < 0: masked) of a sample, counted from the
// start of training.
using SampleSource =
    std::function<void(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels)>;

constexpr int32_t kMaskedLabel = -100;

// starts[t] = where the document of token t of a sample begins (data/documents.h). Empty where a
// token says where documents end (data.end_token).
using StartsSource = std::function<void(int64_t sample, std::span<int32_t> starts)>;

// The samples of a run, and where documents begin in them.
struct Samples {
  SampleSource fill;
  StartsSource starts;
};

// What [data] names: the bytes of a text, or sets of tokens. Throws ConfigError when it is missing,
// empty or too short.
SampleSource text_samples(const RunSpec& spec);

// What [data] names to train on, conversations included. Sample n depends on (spec.data,
// train.seq_len, train.seed, n) alone. Throws ConfigError.
Samples training_samples(const RunSpec& spec);

// Puts this rank's samples of step `step` (1 is the first) into its input buffers. Step s reads
// samples (s - 1) * global_batch on, whatever the mesh.
void fill_inputs(Executor& executor, const RunSpec& spec, int64_t step, const SampleSource& source,
                 const StartsSource& starts_of = {});

}  // namespace tessera
