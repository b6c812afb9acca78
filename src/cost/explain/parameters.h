// Parameters that several topics ask for, with the same symbol and the same default.
#pragma once

#include "cost/explain/values.h"

namespace tessera {

inline constexpr Parameter kModel = {
    "model", "", Unit::kNumber, "", "take numbers from a known model", Parameter::Kind::kText};
inline constexpr Parameter kDevice = {
    "device", "", Unit::kNumber, "", "take numbers from a known device", Parameter::Kind::kText};
inline constexpr Parameter kBatch = {
    "batch", "b", Unit::kCount, "1", "sequences of a micro-batch", Parameter::Kind::kWhole};
inline constexpr Parameter kHidden = {
    "hidden", "h", Unit::kCount, "4096", "width of the model", Parameter::Kind::kWhole};
inline constexpr Parameter kLayers = {"layers", "L",      Unit::kCount,
                                      "32",     "layers", Parameter::Kind::kWhole};
inline constexpr Parameter kElement = {"element", "e", Unit::kNumber, "2", "bytes of a value"};

}  // namespace tessera
