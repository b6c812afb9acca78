// One colour per category of memory, in every picture.
#pragma once

#include <array>

#include "compile/program/program.h"
#include "draw/svg.h"

namespace tessera {

inline Color color_of(ArenaKind arena) {
  // In the order of kAllArenas.
  constexpr std::array<Color, kNumArenas> kColors = {{{66, 133, 200},
                                                      {46, 148, 110},
                                                      {138, 106, 184},
                                                      {226, 146, 52},
                                                      {200, 84, 84},
                                                      {158, 128, 100}}};
  return kColors[static_cast<size_t>(arena)];
}

}  // namespace tessera
