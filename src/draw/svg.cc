#include "draw/svg.h"

#include <fmt/format.h>

#include <utility>

namespace tessera {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
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
      default:
        // Control characters are not allowed in XML.
        result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
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

}  // namespace

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
      "<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" fill=\"{}\" stroke=\"#ffffff\" "
      "stroke-width=\"0.8\"/>\n",
      x, y, width, height, fill);
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

void SvgPage::stripes(double x, double y, double width, double height) {
  if (!std::exchange(has_stripes_, true)) {
    body_ +=
        "<defs><pattern id=\"stripes\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"2\" height=\"5\" fill=\"#ffffff\"/>"
        "</pattern></defs>\n";
  }
  area(x, y, width, height, "url(#stripes)");
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

std::string SvgPage::str(double width, double height) const {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
             "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
             width, height) +
         body_ + "</svg>\n";
}

}  // namespace tessera
