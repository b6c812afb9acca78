// What serving takes from the machine and from the model's folder, where the user leaves it open.
#pragma once

#include "serve/plan/serve_options.h"
#include "spec/run_spec.h"
#include "train/verify/model_folder.h"

namespace tessera::serve {

// How long a text of a model may be, in tokens.
struct ContextLimits {
  int64_t made_for = 0;  // that it was trained on, or that its configuration names
  int64_t most = 0;      // that have a position at all: rotary ones never end, learned ones do
};
ContextLimits context_limits(const ModelFolder& folder);

// The model of options.model, resolved for one rank, and options without a 0 that plan_serving()
// does not take: max_context is what the model was made for, threads are cores / ranks,
// memory_bytes what is free here, control groups considered. `ranks_on_host`: that share this host;
// 0: all. max_context may be more than what the model was made for: whoever lets users say it
// warns. Throws ConfigError where it is more than the model has positions for.
RunSpec fill_options(ServeOptions& options, int64_t ranks_on_host = 0);
// The same with options.random_model, where that is not empty; max_context must be said.
RunSpec fill_options_of_any(ServeOptions& options, int64_t ranks_on_host = 0);
// What of that the machine says: threads and memory_bytes.
void fill_from_host(ServeOptions& options, int64_t ranks_on_host = 0);

}  // namespace tessera::serve
