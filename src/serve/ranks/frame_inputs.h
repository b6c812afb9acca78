// A frame as the integers that a Program reads, on one rank.
#pragma once

#include "runtime/executor.h"
#include "serve/frame.h"

namespace tessera::serve {

// Throws InternalError, naming what is wrong, for a frame that the ranks were not made for, before
// anything of it is written.
void check_frame(const Frame& frame, const ServeShape& shape);

// Into the inputs that the rank has; places behind those of the frame become padding.
void fill_inputs(const Frame& frame, const ServeShape& shape, Executor& executor);

}  // namespace tessera::serve
