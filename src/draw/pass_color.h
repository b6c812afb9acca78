// One colour per pass, in every timeline and bar of time.
#pragma once

#include "draw/palette.h"

namespace tessera {

// The colour of the bytes that a pass works for: forward that of parameters, backward that of
// gradients, an update that of the optimizer, waiting that of communication. The second half of a
// backward that is split has one of its own.
inline constexpr Color kForwardColor = color_of(palette::kParameters),
                       kBackwardColor = color_of(palette::kGradients),
                       kInputGradColor = color_of(palette::kGradients),
                       kWeightGradColor = color_of(palette::kWeightGrad),
                       kUpdateColor = color_of(palette::kOptimizer),
                       kExposedColor = color_of(palette::kCommunication);

}  // namespace tessera
