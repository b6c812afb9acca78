#include "watch/chart_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera {
namespace {

constexpr std::array<int, 6> kColors = {36, 33, 35, 32, 31, 34};  // of ANSI terminals
constexpr int kDotsAcross = 2, kDotsDown = 4;                     // of a braille character
constexpr int kNobody = -1;

std::string utf8_of(int code) {
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// The bit of a dot in a braille character.
int dot_bit(int across, int down) {
  constexpr std::array<std::array<int, kDotsAcross>, kDotsDown> kBits = {
      {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
  return kBits[static_cast<size_t>(down)][static_cast<size_t>(across)];
}

bool uses_braille(const ChartOptions& options, size_t curves) {
  return options.utf8 && (curves == 1 || options.colored);
}

std::string colored(size_t series, const std::string& text) {
  return fmt::format("\033[{}m{}\033[0m", kColors[series % kColors.size()], text);
}

char letter_of(size_t series) { return static_cast<char>('A' + series % 26); }

// Cells of the terminal, each with the dots in it and the curve that was drawn there last.
class Canvas {
 public:
  Canvas(int columns, int rows, bool braille)
      : columns_(columns),
        rows_(rows),
        across_(braille ? kDotsAcross : 1),
        down_(braille ? kDotsDown : 1),
        cells_(static_cast<size_t>(columns) * static_cast<size_t>(rows)) {}

  // Places are from 0 to 1, from the left and from below.
  void line(double x0, double y0, double x1, double y1, int series) {
    const double width = dots_across() - 1, height = dots_down() - 1;
    const double dx = (x1 - x0) * width, dy = (y1 - y0) * height;
    const int steps = static_cast<int>(std::ceil(std::max({std::abs(dx), std::abs(dy), 1.0})));
    for (int k = 0; k <= steps; ++k) {
      const double part = static_cast<double>(k) / steps;
      dot(static_cast<int>(std::lround(x0 * width + part * dx)),
          static_cast<int>(std::lround((1 - y0) * height - part * dy)), series);
    }
  }

  struct Cell {
    int dots = 0;
    int series = kNobody;
  };
  [[nodiscard]] const Cell& cell(int column, int row) const { return cells_[index(column, row)]; }

 private:
  [[nodiscard]] int dots_across() const { return columns_ * across_; }
  [[nodiscard]] int dots_down() const { return rows_ * down_; }
  [[nodiscard]] size_t index(int column, int row) const {
    return static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }

  void dot(int x, int y, int series) {
    if (x < 0 || y < 0 || x >= dots_across() || y >= dots_down()) return;
    Cell& cell = cells_[index(x / across_, y / down_)];
    // Dots of two curves in one cell would have one colour.
    if (cell.series != series) cell = {0, series};
    cell.dots |= dot_bit(x % across_, y % down_);
  }

  int columns_, rows_, across_, down_;
  std::vector<Cell> cells_;
};

bool shown(const CurvePoint& point, const ChartOptions& options) {
  return !options.logarithmic || point.mean > 0;
}

class Chart {
 public:
  Chart(const std::vector<ChartSeries>& series, const ChartOptions& options)
      : series_(series), options_(options), braille_(uses_braille(options, series.size())) {
    RangeOf x, y;
    for (const ChartSeries& one : series) {
      for (const CurvePoint& point : one.points) {
        if (!shown(point, options)) continue;
        x.include(point.x);
        y.include(point.mean);
      }
    }
    x_ = x.range(false);
    y_ = y.range(options.logarithmic);
    label_rows();
    columns_ = std::max(8, options.columns - label_width_ - 3);
  }

  std::string str() {
    Canvas canvas(columns_, options_.rows, braille_);
    for (size_t s = 0; s < series_.size(); ++s) draw(canvas, static_cast<int>(s));
    std::string text = options_.title + (options_.logarithmic ? " (logarithmic)" : "") + '\n';
    for (int row = 0; row < options_.rows; ++row) text += line_of(canvas, row);
    return text + x_axis();
  }

 private:
  // The rows that ticks are nearest to.
  void label_rows() {
    labels_.resize(static_cast<size_t>(options_.rows));
    for (const double value : ticks(y_, std::max(2, options_.rows / 4))) {
      const double place = (1 - y_.place(value)) * (options_.rows - 1);
      const auto row = static_cast<size_t>(std::clamp<double>(place + 0.5, 0, options_.rows - 1));
      labels_[row] = axis_text(value);
      label_width_ = std::max(label_width_, static_cast<int>(labels_[row].size()));
    }
  }

  void draw(Canvas& canvas, int series) const {
    const CurvePoint* before = nullptr;
    for (const CurvePoint& point : series_[static_cast<size_t>(series)].points) {
      if (!shown(point, options_)) continue;
      const CurvePoint& from = before == nullptr ? point : *before;
      canvas.line(x_.place(from.x), y_.place(from.mean), x_.place(point.x), y_.place(point.mean),
                  series);
      before = &point;
    }
  }

  [[nodiscard]] std::string cell_text(const Canvas::Cell& cell) const {
    if (cell.series == kNobody) return " ";
    const auto series = static_cast<size_t>(cell.series);
    if (braille_) {
      const std::string dots = utf8_of(0x2800 + cell.dots);
      return options_.colored ? colored(series, dots) : dots;
    }
    const std::string mark(1, series_.size() == 1 ? '*' : letter_of(series));
    return options_.colored ? colored(series, mark) : mark;
  }

  [[nodiscard]] std::string line_of(const Canvas& canvas, int row) const {
    const std::string& label = labels_[static_cast<size_t>(row)];
    std::string text = fmt::format("{:>{}} {} ", label, label_width_, bar(label.empty()));
    int filled = 0;  // cells after the last drawn one are left out
    for (int column = 0; column < columns_; ++column) {
      if (canvas.cell(column, row).series != kNobody) filled = column + 1;
    }
    for (int column = 0; column < filled; ++column) text += cell_text(canvas.cell(column, row));
    while (text.ends_with(' ')) text.pop_back();
    return text + '\n';
  }

  [[nodiscard]] std::string bar(bool plain) const {
    if (!options_.utf8) return plain ? "|" : "+";
    return plain ? "│" : "┤";
  }

  // Numbers below the places they stand for, and the name of the axis at the end.
  [[nodiscard]] std::string x_axis() const {
    const std::string margin(static_cast<size_t>(label_width_) + 1, ' ');
    std::string rule = options_.utf8 ? "└" : "+";
    for (int column = 0; column <= columns_; ++column) rule += options_.utf8 ? "─" : "-";
    std::string numbers;
    const auto room = static_cast<size_t>(columns_ + 1);
    const size_t name_at = room - std::min(room, options_.x_name.size());
    for (const double value : ticks(x_, std::max(2, columns_ / 12))) {
      const std::string label = axis_text(value);
      const auto middle =
          static_cast<size_t>(std::clamp(x_.place(value), 0.0, 1.0) * (columns_ - 1));
      const size_t begin = middle + 1 - std::min(middle + 1, label.size() / 2);
      if (begin < numbers.size() + (numbers.empty() ? 0 : 2)) continue;
      if (begin + label.size() + 1 > name_at) break;
      numbers.resize(begin, ' ');
      numbers += label;
    }
    numbers.resize(std::max(numbers.size(), name_at), ' ');
    return margin + rule + '\n' + margin + ' ' + numbers + options_.x_name + '\n';
  }

  const std::vector<ChartSeries>& series_;
  const ChartOptions& options_;
  bool braille_;
  AxisRange x_, y_;
  std::vector<std::string> labels_;  // by row
  int label_width_ = 0;
  int columns_ = 0;
};

}  // namespace

std::string marked(const ChartOptions& options, size_t series, size_t of, const std::string& text) {
  if (options.colored) {
    const bool braille = uses_braille(options, of);
    const std::string mark = braille ? "━━" : std::string(2, of == 1 ? '*' : letter_of(series));
    return colored(series, mark) + ' ' + text;
  }
  return of == 1 ? text : fmt::format("{} {}", letter_of(series), text);
}

std::string chart_text(const std::vector<ChartSeries>& series, const ChartOptions& options) {
  return Chart(series, options).str();
}

}  // namespace tessera
