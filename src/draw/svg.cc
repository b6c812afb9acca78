#include "draw/svg.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/text/printable.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr size_t kLongestText = 1000;

// Control characters are not allowed in XML, and nobody reads longer texts in a picture.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : shortened(text, kLongestText)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string_view name_of(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart:
      return "start";
    case Anchor::kMiddle:
      return "middle";
    case Anchor::kEnd:
      return "end";
  }
  return "";
}

// Inks and papers of a dark screen; bars keep their colours. Printed pages stay white.
std::string dark_style() {
  std::string style = "<style>\n@media screen and (prefers-color-scheme: dark) {\n";
  const auto rule = [&](std::string_view element, std::string_view what,
                        const PaletteColor& color) {
    style +=
        fmt::format("{0}[{1}=\"{2}\"] {{ {1}: {3} }}\n", element, what, color.light, color.dark);
  };
  rule("rect", "fill", palette::kSurface);
  rule("rect", "stroke", palette::kSurface);
  rule("rect", "fill", palette::kSunken);
  rule("rect", "stroke", palette::kActivationsEdge);
  for (const PaletteColor& ink : {palette::kInk1, palette::kInk2, palette::kInk3, palette::kBad}) {
    rule("text", "fill", ink);
    rule("line", "stroke", ink);
  }
  return style + "}\n</style>\n";
}

}  // namespace

std::vector<std::string> lines_of(std::string_view text, double size, double width) {
  // "16,384 x h100" is one word.
  std::vector<std::string> words;
  for (const std::string_view word : split(text, ' ')) {
    const bool joins = !words.empty() && (word == "x" || words.back().ends_with(" x"));
    if (joins) {
      words.back() += fmt::format(" {}", word);
    } else {
      words.emplace_back(word);
    }
  }
  std::vector<std::string> lines(1);
  for (const std::string& word : words) {
    const std::string longer =
        lines.back().empty() ? word : fmt::format("{} {}", lines.back(), word);
    if (lines.back().empty() || text_pixels(longer, size) <= width) {
      lines.back() = longer;
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

std::string hex(Color color, double pale) {
  const auto mixed = [pale](int part) { return static_cast<int>(part + (255 - part) * pale); };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(color.red), mixed(color.green),
                     mixed(color.blue));
}

void SvgPage::text(double x, double y, double size, std::string_view fill, Anchor anchor,
                   std::string_view content) {
  body_ += fmt::format(
      "<text x=\"{:g}\" y=\"{:g}\" font-size=\"{:g}\" fill=\"{}\" text-anchor=\"{}\">{}</text>\n",
      x, y, size, fill, name_of(anchor), escaped(content));
}

void SvgPage::box(double x, double y, double width, double height, std::string_view fill) {
  body_ += fmt::format(
      "<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" fill=\"{}\" stroke=\"{}\" "
      "stroke-width=\"0.8\"/>\n",
      x, y, width, height, fill, kWhite);
}

void SvgPage::frame(double x, double y, double width, double height, std::string_view stroke) {
  body_ += fmt::format(
      "<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" fill=\"none\" stroke=\"{}\"/>\n",
      x, y, width, height, stroke);
}

void SvgPage::area(double x, double y, double width, double height, std::string_view fill) {
  body_ += fmt::format("<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" fill=\"{}\"/>\n",
                       x, y, width, height, fill);
}

void SvgPage::pattern(std::string_view id, double thick, std::string_view fill) {
  body_ += fmt::format(
      "<defs><pattern id=\"{}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"{:g}\" height=\"5\" fill=\"{}\"/>"
      "</pattern></defs>\n",
      id, thick, fill);
}

void SvgPage::stripes(double x, double y, double width, double height) {
  if (!std::exchange(has_stripes_, true)) pattern("stripes", 2, kWhite);
  area(x, y, width, height, "url(#stripes)");
}

void SvgPage::hatch(double x, double y, double width, double height) {
  if (!std::exchange(has_hatch_, true)) pattern("hatch", 1.5, kFaintInk);
  area(x, y, width, height, "url(#hatch)");
}

void SvgPage::line(double x, double y, double to_x, double to_y, std::string_view stroke) {
  body_ += fmt::format("<line x1=\"{:g}\" y1=\"{:g}\" x2=\"{:g}\" y2=\"{:g}\" stroke=\"{}\"/>\n", x,
                       y, to_x, to_y, stroke);
}

void SvgPage::dashes(double x, double y, double to_x, double to_y, std::string_view stroke) {
  body_ += fmt::format(
      "<line x1=\"{:g}\" y1=\"{:g}\" x2=\"{:g}\" y2=\"{:g}\" stroke=\"{}\" stroke-width=\"2\" "
      "stroke-dasharray=\"5 3\"/>\n",
      x, y, to_x, to_y, stroke);
}

void SvgPage::arrow(double x, double y, double to_x, double to_y, std::string_view stroke) {
  constexpr double kBack = 5.4, kAside = 2.6;
  line(x, y, to_x, to_y, stroke);
  const double length = std::sqrt((to_x - x) * (to_x - x) + (to_y - y) * (to_y - y));
  if (length == 0) return;
  const double along_x = (to_x - x) / length, along_y = (to_y - y) / length;
  for (const double aside : {-kAside, kAside}) {
    line(to_x, to_y, to_x - kBack * along_x - aside * along_y,
         to_y - kBack * along_y + aside * along_x, stroke);
  }
}

void SvgPage::curve(const std::vector<SvgPoint>& points, std::string_view stroke) {
  if (points.size() == 1) {
    body_ += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"2.5\" fill=\"{}\"/>\n",
                         points[0].x, points[0].y, stroke);
  }
  if (points.size() < 2) return;
  body_ += "<polyline points=\"";
  for (const SvgPoint& point : points) body_ += fmt::format("{:.2f},{:.2f} ", point.x, point.y);
  body_.back() = '"';
  body_ += fmt::format(" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>\n", stroke);
}

std::string SvgPage::str(double width, double height, std::string_view title,
                         std::string_view description) const {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
             "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"Helvetica, Arial, sans-serif\" "
             "role=\"img\">\n<title>{2}</title>\n<desc>{3}</desc>\n{4}"
             "<rect width=\"100%\" height=\"100%\" fill=\"{5}\"/>\n",
             width, height, escaped(title), escaped(description), dark_style(), kWhite) +
         body_ + "</svg>\n";
}

}  // namespace tessera
