// Contrast as WCAG 2 has it; distances of colours by CIEDE2000, as people without one kind of cone
// see them (Machado, Oliveira and Fernandes 2009).
#include "draw/palette.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numbers>
#include <regex>
#include <string>
#include <vector>

namespace tessera {
namespace {

using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;

Triple linear_light(std::string_view hex_color) {
  Triple parts{};
  for (size_t i = 0; i < 3; ++i) {
    const int whole = std::stoi(std::string(hex_color.substr(1 + 2 * i, 2)), nullptr, 16);
    const double part = whole / 255.0;
    parts[i] = part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  }
  return parts;
}

double luminance(std::string_view color) {
  const auto [r, g, b] = linear_light(color);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

double contrast(std::string_view a, std::string_view b) {
  const auto [dark, light] = std::minmax({luminance(a), luminance(b)});
  return (light + 0.05) / (dark + 0.05);
}

struct Sight {
  std::string name;
  Matrix seen;
};
const std::vector<Sight>& sights() {
  static const std::vector<Sight> kSights = {{"full", {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
                                             {"protan",
                                              {{{0.152286, 1.052583, -0.204868},
                                                {0.114503, 0.786281, 0.099216},
                                                {-0.003882, -0.048116, 1.051998}}}},
                                             {"deutan",
                                              {{{0.367322, 0.860646, -0.227968},
                                                {0.280085, 0.672501, 0.047413},
                                                {-0.011820, 0.042940, 0.968881}}}},
                                             {"tritan",
                                              {{{1.255528, -0.076749, -0.178779},
                                                {-0.078411, 0.930809, 0.147602},
                                                {0.004733, 0.691367, 0.303900}}}}};
  return kSights;
}

// CIE L*a*b* under D65.
Triple lab(std::string_view color, const Matrix& seen) {
  const Triple light = linear_light(color);
  Triple rgb{};
  for (size_t i = 0; i < 3; ++i) {
    rgb[i] =
        std::clamp(seen[i][0] * light[0] + seen[i][1] * light[1] + seen[i][2] * light[2], 0.0, 1.0);
  }
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f((0.4124 * rgb[0] + 0.3576 * rgb[1] + 0.1805 * rgb[2]) / 0.9505);
  const double y = f(0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]);
  const double z = f((0.0193 * rgb[0] + 0.1192 * rgb[1] + 0.9505 * rgb[2]) / 1.089);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double radians(double degrees) { return degrees * std::numbers::pi / 180; }
double hue_of(double a, double b) {
  const double degrees = std::atan2(b, a) * 180 / std::numbers::pi;
  return degrees < 0 ? degrees + 360 : degrees;
}

double ciede2000(const Triple& one, const Triple& two) {
  const double mean = (std::hypot(one[1], one[2]) + std::hypot(two[1], two[2])) / 2;
  const double seventh = std::pow(mean, 7);
  const double grow = 1.5 - 0.5 * std::sqrt(seventh / (seventh + std::pow(25, 7)));
  const double c1 = std::hypot(one[1] * grow, one[2]), c2 = std::hypot(two[1] * grow, two[2]);
  const double h1 = hue_of(one[1] * grow, one[2]), h2 = hue_of(two[1] * grow, two[2]);
  const double turn = std::fmod(h2 - h1 + 540, 360) - 180;
  const double hue = std::fmod(h1 + turn / 2 + 360, 360);
  const double l = (one[0] + two[0]) / 2, c = (c1 + c2) / 2;
  const double t = 1 - 0.17 * std::cos(radians(hue - 30)) + 0.24 * std::cos(radians(2 * hue)) +
                   0.32 * std::cos(radians(3 * hue + 6)) - 0.2 * std::cos(radians(4 * hue - 63));
  const double squared = (l - 50) * (l - 50);
  const double dl = (two[0] - one[0]) / (1 + 0.015 * squared / std::sqrt(20 + squared));
  const double dc = (c2 - c1) / (1 + 0.045 * c);
  const double dh = 2 * std::sqrt(c1 * c2) * std::sin(radians(turn / 2)) / (1 + 0.015 * c * t);
  const double c7 = std::pow(c, 7), away = (hue - 275) / 25;
  const double rotation =
      -2 * std::sqrt(c7 / (c7 + std::pow(25, 7))) * std::sin(radians(60 * std::exp(-away * away)));
  return std::sqrt(dl * dl + dc * dc + dh * dh + rotation * dc * dh);
}

const std::vector<PaletteColor> kAreas = {
    palette::kParameters,    palette::kGradients, palette::kOptimizer, palette::kActivations,
    palette::kCommunication, palette::kWorkspace, palette::kWeightGrad};

// Pairs of the paper that defines it (Sharma, Wu and Dalal 2005).
TEST(PaletteTest, TheDistanceIsThatOfItsPaper) {
  EXPECT_NEAR(ciede2000({50, 2.6772, -79.7751}, {50, 0, -82.7485}), 2.0425, 1e-4);
  EXPECT_NEAR(ciede2000({50, 2.5, 0}, {73, 25, -18}), 27.1492, 1e-4);
  EXPECT_NEAR(ciede2000({60.2574, -34.0099, 36.2677}, {60.4626, -34.1751, 39.4387}), 1.2644, 1e-4);
}

TEST(PaletteTest, AreasAreToldApartByEverybody) {
  for (const Sight& sight : sights()) {
    for (size_t i = 0; i < kAreas.size(); ++i) {
      for (size_t j = i + 1; j < kAreas.size(); ++j) {
        EXPECT_GE(ciede2000(lab(kAreas[i].light, sight.seen), lab(kAreas[j].light, sight.seen)), 10)
            << sight.name << ": " << kAreas[i].name << ", " << kAreas[j].name;
      }
    }
  }
}

TEST(PaletteTest, LabelsCanBeReadOnAreas) {
  for (const PaletteColor& area : kAreas) {
    EXPECT_EQ(area.light, area.dark) << "data has one colour: " << area.name;
    EXPECT_GE(contrast(area.light, ink_on(color_of(area))), 4.5) << area.name;
  }
}

TEST(PaletteTest, InksAreasAndEdgesStandOutFromThePaper) {
  const std::vector<PaletteColor> inks = {
      palette::kInk1, palette::kInk2, palette::kInk3, palette::kBad, palette::kWarn, palette::kPp,
      palette::kDp,   palette::kFsdp, palette::kCp,   palette::kTp,  palette::kEp};
  for (const PaletteColor& ink : inks) {
    for (const PaletteColor& paper : {palette::kBackground, palette::kSurface, palette::kSunken}) {
      EXPECT_GE(contrast(ink.light, paper.light), 4.5) << ink.name << " on " << paper.name;
      EXPECT_GE(contrast(ink.dark, paper.dark), 4.5) << ink.name << " on dark " << paper.name;
    }
  }
  for (const PaletteColor& area : kAreas) {
    const bool outlined = area.name == palette::kActivations.name;
    const PaletteColor& edge = outlined ? palette::kActivationsEdge : area;
    EXPECT_GE(contrast(edge.light, palette::kSurface.light), 3) << area.name;
    EXPECT_GE(contrast(edge.dark, palette::kSurface.dark), 3) << area.name;
  }
  EXPECT_GE(contrast(palette::kEdge.light, palette::kSurface.light), 3);
  EXPECT_GE(contrast(palette::kEdge.dark, palette::kSurface.dark), 3);
}

std::map<std::string, std::string> colors_in(const std::string& block) {
  std::map<std::string, std::string> colors;
  const std::regex pattern(R"(--([\w-]+): (#[0-9a-f]{6}))");
  for (std::sregex_iterator it(block.begin(), block.end(), pattern), end; it != end; ++it) {
    colors[(*it)[1]] = (*it)[2];
  }
  return colors;
}

TEST(PaletteTest, TheStyleSheetHasTheSameColours) {
  const std::filesystem::path sheet = TESSERA_SOURCE_DIR "/web/src/styles/tokens.css";
  if (!std::filesystem::exists(sheet)) GTEST_SKIP() << "there are no pages in this tree";
  std::ifstream file(sheet);
  const std::string css{std::istreambuf_iterator<char>(file), {}};
  const size_t dark_block = css.find(":root[data-theme=");
  ASSERT_NE(dark_block, std::string::npos);
  const auto light = colors_in(css.substr(0, dark_block));
  auto dark = light;
  for (const auto& [name, color] : colors_in(css.substr(dark_block))) dark[name] = color;
  for (const PaletteColor& color : kPalette) {
    const std::string name(color.name);
    ASSERT_TRUE(light.contains(name)) << name;
    EXPECT_EQ(light.at(name), color.light) << name;
    EXPECT_EQ(dark.at(name), color.dark) << name << ", dark";
  }
}

}  // namespace
}  // namespace tessera
