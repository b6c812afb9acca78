// What serving takes from the machine and from the model's folder, where the user leaves it open.
#pragma once

#include "serve/plan/serve_options.h"
#include "spec/run_spec.h"

namespace tessera::serve {

// The model of options.model, resolved for one rank, and options without a 0 that plan_serving()
// does not take: max_context is what the model was made for, threads are cores / ranks,
// memory_bytes what is free here, control groups considered. `ranks_on_host`: that share this host;
// 0: all. Throws ConfigError where max_context is more than the model's positions.
RunSpec fill_options(ServeOptions& options, int64_t ranks_on_host = 0);

}  // namespace tessera::serve
