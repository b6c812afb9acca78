// One colour per pass, in every timeline and bar of time.
#pragma once

#include "draw/svg.h"

namespace tessera {

// None of memory's colours, but for those that mean the same there: purple is the optimizer, red is
// communication.
inline constexpr Color kForwardColor = {37, 150, 168}, kBackwardColor = {75, 90, 138},
                       kInputGradColor = {112, 128, 176}, kWeightGradColor = {132, 156, 54},
                       kUpdateColor = {138, 106, 184}, kExposedColor = {200, 84, 84};

}  // namespace tessera
