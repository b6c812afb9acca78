// One colour per category of memory, in every picture.
#pragma once

#include <array>

#include "compile/program/program.h"
#include "draw/palette.h"
#include "draw/svg.h"

namespace tessera {

inline Color color_of(ArenaKind arena) {
  // In the order of kAllArenas.
  constexpr std::array<Color, kNumArenas> kColors = {
      color_of(palette::kParameters),    color_of(palette::kGradients),
      color_of(palette::kOptimizer),     color_of(palette::kActivations),
      color_of(palette::kCommunication), color_of(palette::kWorkspace),
      color_of(palette::kOptimizer)};  // no picture has a cache and an optimizer
  return kColors[static_cast<size_t>(arena)];
}

// An area of that colour; those that are pale on white have an outline.
inline void fill_category(SvgPage& page, ArenaKind arena, double x, double y, double width,
                          double height) {
  page.area(x, y, width, height, hex(color_of(arena)));
  if (arena != ArenaKind::kActivations || width < 2 || height < 2) return;
  page.frame(x + 0.5, y + 0.5, width - 1, height - 1, palette::kActivationsEdge.light);
}

}  // namespace tessera
