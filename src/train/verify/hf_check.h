// Does a Hugging Face folder load, and does it compute? What there is to ask of a folder for which
// nobody recorded values.
#pragma once

#include "train/verify/verify.h"

namespace tessera {

// Loads the weights of `spec.model.hf`, passes one sequence of [data] per micro-batch forward and
// reports the loss. The text's bytes are the tokens. `spec` has gone through resolve(). Throws
// Error with exit code 4 for a loss that is not finite.
VerifyReport check_hf(RunSpec spec);

}  // namespace tessera
