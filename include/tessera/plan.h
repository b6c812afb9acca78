// What a run needs and how long its steps take, without running it.
//
//   const tessera::Json plan = tessera::plan({{"model", "gpt2"}, {"cluster", "h100-8"}});
#pragma once

#include <string>

#include "tessera/answer.h"

namespace tessera {

// As `tessera plan --json`: memory and traffic of every rank, the step, what would make it fit. A
// plan that does not fit is an answer.
Json plan(const Json& request);

// The same as a picture: as `tessera plan --svg`.
std::string plan_picture(const Json& request);

}  // namespace tessera
