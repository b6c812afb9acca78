// What the flags of `tessera serve` ask of a model that is to be started.
#pragma once

#include "serve/serve_command.h"
#include "serve/start/start_model.h"

namespace tessera {

inline constexpr int kUsualRestarts = 3;

// Throws ConfigError for flags that cannot be meant, or not together. Without callbacks.
serve::StartOptions start_request(const ServeCommandOptions& options,
                                  const Environment& environment);

}  // namespace tessera
