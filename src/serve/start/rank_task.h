// What the ranks of a served model are told, as the text of their task.
#pragma once

#include <string>

#include "serve/ranks/serve_options.h"

namespace tessera::serve {

// `options` has no 0 that stands for something else, so that every rank makes the same plan.
std::string task_of(const ServeOptions& options);
// Throws ConfigError for what is no such text.
ServeOptions options_of_task(const std::string& task);

}  // namespace tessera::serve
