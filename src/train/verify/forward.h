// One forward pass of a Hugging Face folder's weights.
#pragma once

#include <vector>

#include "train/samples/batch.h"

namespace tessera {

// The logits of the first `batch` samples, [batch, seq_len, vocab], on the run's mesh. `spec` has
// gone through resolve(), names the folder (model.hf), and its micro-batches on all replicas hold
// the batch; samples beyond it are computed and left out.
std::vector<double> forward_logits(const RunSpec& spec, int64_t batch, const SampleSource& samples);

}  // namespace tessera
