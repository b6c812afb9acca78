// The colours of all pictures, and of the pages that show the same things: one list, which a test
// compares with the style sheet. Data colours are the same on light and on dark paper: bytes and
// the work that makes them share one. They can be told apart by those who see no red, green or
// blue; labels and thin lines can be read on what they lie on (palette_test.cc).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tessera {

struct Color {
  int red = 0, green = 0, blue = 0;
};

struct PaletteColor {
  std::string_view name;         // as in the style sheet, without dashes before it
  std::string_view light, dark;  // "#2a6fdb"
};

namespace palette {

inline constexpr PaletteColor kBackground = {"bg", "#f5f5f2", "#0f1216"},
                              kSurface = {"surface", "#ffffff", "#171b21"},
                              kSunken = {"sunken", "#edede8", "#20252d"},
                              kLine = {"line", "#d9dad4", "#303741"},
                              kEdge = {"edge", "#858b95", "#6d7683"};
inline constexpr PaletteColor kInk1 = {"ink", "#15181d", "#eceef1"},
                              kInk2 = {"ink-2", "#4a515b", "#b9bfc8"},
                              kInk3 = {"ink-3", "#646b76", "#969da8"},
                              kBad = {"bad", "#a3114e", "#ff8db5"},
                              kWarn = {"warn", "#7a4b00", "#f2bd6b"};

// Areas.
inline constexpr PaletteColor kParameters = {"parameters", "#2a6fdb", "#2a6fdb"},
                              kGradients = {"gradients", "#3f9a78", "#3f9a78"},
                              kOptimizer = {"optimizer", "#8a538f", "#8a538f"},
                              kActivations = {"activations", "#e8ad55", "#e8ad55"},
                              kCommunication = {"communication", "#b0413a", "#b0413a"},
                              kWorkspace = {"workspace", "#8e95a3", "#8e95a3"},
                              kWeightGrad = {"weight-grad", "#95890f", "#95890f"},
                              kIdleTime = {"idle", "#edede8", "#20252d"};
// The outline of activations, which are pale on white; labels on dark and on light areas.
inline constexpr PaletteColor kActivationsEdge = {"activations-edge", "#a8701a", "#e8ad55"},
                              kOnDarkFill = {"on-dark-fill", "#ffffff", "#ffffff"},
                              kOnLightFill = {"on-light-fill", "#10151c", "#10151c"};

// Axes of the mesh: letters and strokes, never areas.
inline constexpr PaletteColor kPp = {"pp", "#8a4a00", "#f0b47c"},
                              kDp = {"dp", "#1b4e9f", "#92baff"},
                              kFsdp = {"fsdp", "#4d3bab", "#bcb3ff"},
                              kCp = {"cp", "#8c1a75", "#f3a5e2"},
                              kTp = {"tp", "#00664b", "#7fd8b8"},
                              kEp = {"ep", "#5a5c00", "#d3d16c"};

}  // namespace palette

inline constexpr std::array kPalette = {palette::kBackground,
                                        palette::kSurface,
                                        palette::kSunken,
                                        palette::kLine,
                                        palette::kEdge,
                                        palette::kInk1,
                                        palette::kInk2,
                                        palette::kInk3,
                                        palette::kBad,
                                        palette::kWarn,
                                        palette::kParameters,
                                        palette::kGradients,
                                        palette::kOptimizer,
                                        palette::kActivations,
                                        palette::kCommunication,
                                        palette::kWorkspace,
                                        palette::kWeightGrad,
                                        palette::kIdleTime,
                                        palette::kActivationsEdge,
                                        palette::kOnDarkFill,
                                        palette::kOnLightFill,
                                        palette::kPp,
                                        palette::kDp,
                                        palette::kFsdp,
                                        palette::kCp,
                                        palette::kTp,
                                        palette::kEp};

// "#2a6fdb" as parts.
constexpr Color color_of(const PaletteColor& color) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  const auto part = [&](size_t at) {
    return 16 * digit(color.light[at]) + digit(color.light[at + 1]);
  };
  return {part(1), part(3), part(5)};
}

// The ink that can be read on an area of this colour, mixed with white as hex() does it.
constexpr std::string_view ink_on(Color color, double pale = 0) {
  // Rec. 709 of the squares, which is near enough to choose between the two.
  const auto light = [pale](int part) {
    const double mixed = (part + (255 - part) * pale) / 255;
    return mixed * mixed;
  };
  const double shade =
      0.2126 * light(color.red) + 0.7152 * light(color.green) + 0.0722 * light(color.blue);
  constexpr double kEven = 0.22;  // where both have the same contrast, about
  return shade > kEven ? palette::kOnLightFill.light : palette::kOnDarkFill.light;
}

}  // namespace tessera
