// Frames that mean nothing, to see ranks compute before anybody waits for them.
#pragma once

#include <vector>

#include "serve/frame.h"

namespace tessera::serve {

// One token, and some tokens of one prompt; in pages that nothing is in yet. Their number is 0.
std::vector<Frame> warm_up_frames(const ServeShape& shape);

}  // namespace tessera::serve
