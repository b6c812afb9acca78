#include "draw/svg.h"

#include <fmt/format.h>

#include <utility>

#include "base/printable.h"

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

std::string SvgPage::str(double width, double height) const {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
             "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
             width, height) +
         body_ + "</svg>\n";
}

}  // namespace tessera
