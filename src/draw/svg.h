// A page of an SVG picture: boxes and texts, in the order in which they are drawn. The same calls
// give the same text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "draw/palette.h"

namespace tessera {

// "#4285c8"; `pale` from 0 to 1 mixes it with white.
std::string hex(Color color, double pale = 0);

inline constexpr std::string_view kTitleInk = palette::kInk1.light, kInk = palette::kInk2.light,
                                  kFaintInk = palette::kInk3.light, kBadInk = palette::kBad.light;
inline constexpr std::string_view kWhite = palette::kSurface.light, kBlank = palette::kSunken.light,
                                  kIdle = palette::kIdleTime.light;
// On pale bars, also where the paper is dark.
inline constexpr std::string_view kBarInk = palette::kOnLightFill.light;
inline constexpr double kLetterPixels = 6.2;  // of a character of size 11 or 12, about

// Enough for a text of this size in the fonts that are usual.
constexpr double text_pixels(std::string_view text, double size) {
  return 0.58 * size * static_cast<double>(text.size());
}

// The text in lines that are no wider than `width`, broken at spaces.
std::vector<std::string> lines_of(std::string_view text, double size, double width);

enum class Anchor { kStart, kMiddle, kEnd };

struct SvgPoint {
  double x = 0, y = 0;
};

class SvgPage {
 public:
  void text(double x, double y, double size, std::string_view fill, Anchor anchor,
            std::string_view content);
  void box(double x, double y, double width, double height, std::string_view fill);
  // Only the outline.
  void frame(double x, double y, double width, double height, std::string_view stroke);
  // Without an outline, so that neighbours look like one.
  void area(double x, double y, double width, double height, std::string_view fill);
  // White stripes over an area; it stays visible between them.
  void stripes(double x, double y, double width, double height);
  // Dark stripes over an area: nothing happens there any more.
  void hatch(double x, double y, double width, double height);
  void line(double x, double y, double to_x, double to_y, std::string_view stroke);
  // Thick and dashed: a limit.
  void dashes(double x, double y, double to_x, double to_y, std::string_view stroke);
  // A line with a head at its end.
  void arrow(double x, double y, double to_x, double to_y, std::string_view stroke);
  // A line through the points; a single one is a dot.
  void curve(const std::vector<SvgPoint>& points, std::string_view stroke);

  // `title` and `description` are read out to those who cannot see it. On a dark screen the paper
  // is dark; printed it is white.
  [[nodiscard]] std::string str(double width, double height, std::string_view title,
                                std::string_view description) const;

 private:
  void pattern(std::string_view id, double thick, std::string_view fill);

  std::string body_;
  bool has_stripes_ = false, has_hatch_ = false;
};

}  // namespace tessera
