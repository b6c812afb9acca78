// The arithmetic that a model needs for one optimizer step, whatever the program does: what MFU is
// measured by.
#pragma once

#include <string>

#include "spec/run_spec.h"

namespace tessera {

struct ModelFlops {
  double products = 0;   // 6 for every weight of a product and every token
  double attention = 0;  // 12 for every column of the queries, every token and every key it sees
  [[nodiscard]] double total() const { return products + attention; }
};

// The sum over all ranks. A token sees half of a sequence on average, or less with a sliding
// window, and passes the experts that are chosen for it. Norms, activations and the like are not
// counted.
ModelFlops model_flops(const RunSpec& spec);

// The weights of products that a token passes.
int64_t product_weights(const ModelSpec& model);

// The formula with the numbers of `spec` in it, for people.
std::string model_flops_text(const RunSpec& spec);

}  // namespace tessera
