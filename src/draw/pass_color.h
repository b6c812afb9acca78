// One colour per pass, in every timeline.
#pragma once

#include "draw/svg.h"

namespace tessera {

inline constexpr Color kForwardColor = {66, 133, 200}, kBackwardColor = {46, 148, 110},
                       kInputGradColor = {84, 170, 96}, kWeightGradColor = {226, 146, 52},
                       kUpdateColor = {138, 106, 184}, kExposedColor = {200, 84, 84};

}  // namespace tessera
