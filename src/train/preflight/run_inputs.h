// What a run reads, looked at before it starts: the text and the weights it begins with. Sizes and
// headers alone are read.
#pragma once

#include <cstdint>

#include "spec/run_spec.h"

namespace tessera {

// `spec` must have gone through resolve(). Throws ConfigError when the text or a set of
// tokens is missing, empty or too short for a sample, when its tokens are more than the vocabulary
// or of another tokenizer, and when the model's folder has no weights; Error when something cannot
// be read, or when the weights are not the model's. Returns the bytes of the text, which every
// process of the run keeps; 0 for sets of tokens, which are mapped.
int64_t check_inputs(const RunSpec& spec);

// The part of it that looks at the weights.
void check_weights(const RunSpec& spec);

}  // namespace tessera
