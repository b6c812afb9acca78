#include "draw/placements_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "draw/category_color.h"
#include "draw/held_parts.h"
#include "draw/run_title.h"

namespace tessera {
namespace {

constexpr double kMargin = 16, kLeastLabel = 220, kColumn = 72, kHead = 22;
constexpr double kLeastWidth = 420;                // between the margins
constexpr double kLongSide = 52, kShortSide = 15;  // of a drawn tensor: at most, at least
constexpr int kMostRanks = 16;
constexpr Color kAxis = {112, 128, 154};

struct Size {
  double width = 0, height = 0;
};

Size size_of(const HeldTensor& tensor) {
  const double ratio = static_cast<double>(tensor.rows) / static_cast<double>(tensor.cols);
  if (ratio >= 1) return {std::max(kLongSide / ratio, kShortSide), kLongSide};
  return {kLongSide, std::max(kLongSide * ratio, kShortSide)};
}

// "all", "1/4", "37 %", "none"
std::string share_text(int64_t held, int64_t whole) {
  if (held == 0) return "none";
  if (held == whole) return "all";
  if (whole % held == 0) return fmt::format("1/{}", whole / held);
  return fmt::format("{:.0f} %", 100.0 * static_cast<double>(held) / static_cast<double>(whole));
}

class PlacementsPicture {
 public:
  PlacementsPicture(const StepGraph& step, const std::vector<Program>& programs)
      : step_(step),
        tensors_(held_tensors(step, programs)),
        ranks_(std::min(static_cast<int>(step.mesh.world()), kMostRanks)) {
    for (const HeldTensor& tensor : tensors_) {
      label_ = std::max(label_, text_pixels(tensor.detail, 11) + 10);
    }
  }

  std::string str() {
    const std::string title =
        full_run_title(step_.spec, step_.layout.num_parameters, step_.stages.schedule.name);
    const double width = std::max(left_of(ranks_) - kMargin, kLeastWidth);
    y_ = 8;
    paragraph(title, 15, kTitleInk, width);
    paragraph("which part of the tensors of a block each rank holds", 12, kInk, width);
    y_ += 8;
    draw_ranks();
    for (const HeldTensor& tensor : tensors_) draw_tensor(tensor);
    if (ranks_ < step_.mesh.world()) {
      page_.text(kMargin, y_ + 14, 12, kFaintInk, Anchor::kStart,
                 fmt::format("the first {} of {} ranks", ranks_, step_.mesh.world()));
      y_ += kHead;
    }
    draw_legend(width);
    return page_.str(width + 2 * kMargin, y_ + kMargin, title,
                     "which part of the tensors of a block each rank holds");
  }

 private:
  [[nodiscard]] double left_of(int rank) const { return kMargin + label_ + rank * kColumn; }

  void paragraph(std::string_view text, double size, std::string_view ink, double width) {
    for (const std::string& line : lines_of(text, size, width)) {
      page_.text(kMargin, y_ + size + 1, size, ink, Anchor::kStart, line);
      y_ += size + 5;
    }
  }

  // What the letters of a type say, for those that occur, and what the colours are.
  void draw_legend(double width) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kLetters = {
        {{":S(0)", "S(0): split by rows"},
         {":S(1)", "S(1): split by columns"},
         {":R", "R: whole on every rank"},
         {":I", "I: whole, and used the same way"},
         {":P", "P: partial sums, striped, still to be added"}}};
    double x = kMargin;
    const auto entry = [&](std::string_view text, double before) {
      if (x > kMargin && x + before + text_pixels(text, 11) > kMargin + width) {
        x = kMargin;
        y_ += 18;
      }
      page_.text(x + before, y_ + 11, 11, kInk, Anchor::kStart, text);
      const double begin = x;
      x += before + text_pixels(text, 11) + 16;
      return begin;
    };
    for (const ArenaKind arena : kTrainingArenas) {
      if (!occurs([&](const HeldTensor& tensor) { return tensor.category == arena; })) continue;
      fill_category(page_, arena, entry(name_of(arena), 16), y_ + 1, 11, 11);
    }
    x = kMargin;
    y_ += 20;
    for (const auto& [letters, meaning] : kLetters) {
      const bool used = occurs([&, key = letters](const HeldTensor& tensor) {
        return tensor.detail.find(key) != std::string::npos;
      });
      if (used) entry(meaning, 0);
    }
    y_ += 18;
  }

  template <typename Test>
  [[nodiscard]] bool occurs(const Test& test) const {
    return std::any_of(tensors_.begin(), tensors_.end(), test);
  }

  // The mesh: a row per axis, outermost first, in which neighbours with equal coordinates join.
  void draw_ranks() {
    AxisSet outer;
    for (const Axis axis : kAllAxes) {
      if (step_.mesh.size(axis) == 1) continue;
      outer = outer.with(axis);
      const auto same_group = [&](int a, int b) {
        return std::all_of(kAllAxes.begin(), kAllAxes.end(), [&](Axis other) {
          return !outer.contains(other) || step_.mesh.coord(a, other) == step_.mesh.coord(b, other);
        });
      };
      for (int first = 0; first < ranks_;) {
        int end = first + 1;
        while (end < ranks_ && same_group(first, end)) ++end;
        draw_group(axis, first, end);
        first = end;
      }
      y_ += kHead;
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      page_.text(left_of(rank) + kColumn / 2, y_ + 14, 12, kTitleInk, Anchor::kMiddle,
                 fmt::format("rank {}", rank));
    }
    y_ += kHead + 6;
  }

  void draw_group(Axis axis, int first, int end) {
    const int64_t coord = step_.mesh.coord(first, axis);
    const double x = left_of(first);
    const double width = (end - first) * kColumn;
    page_.box(x + 1, y_, width - 2, kHead - 2, hex(kAxis, coord % 2 == 0 ? 0.75 : 0.55));
    page_.text(x + width / 2, y_ + 14, 12, kBarInk, Anchor::kMiddle,
               fmt::format("{}{}", name_of(axis), coord));
  }

  void draw_tensor(const HeldTensor& tensor) {
    const Size size = size_of(tensor);
    page_.text(kMargin, y_ + 13, 13, kTitleInk, Anchor::kStart, tensor.label);
    page_.text(kMargin, y_ + 29, 11, kFaintInk, Anchor::kStart, tensor.detail);
    for (int rank = 0; rank < ranks_; ++rank) {
      draw_part(tensor, rank, size, left_of(rank) + (kColumn - size.width) / 2);
      page_.text(left_of(rank) + kColumn / 2, y_ + size.height + 13, 11, kInk, Anchor::kMiddle,
                 share_text(tensor.elements_of(rank), tensor.rows * tensor.cols));
    }
    y_ += std::max(size.height + 26, 42.0);
  }

  void draw_part(const HeldTensor& tensor, int rank, Size size, double left) {
    page_.area(left, y_, size.width, size.height, kBlank);
    const double row = size.height / static_cast<double>(tensor.rows);
    const double col = size.width / static_cast<double>(tensor.cols);
    for (const Rect& rect : tensor.by_rank[static_cast<size_t>(rank)]) {
      const double x = left + static_cast<double>(rect.first_col) * col;
      const double y = y_ + static_cast<double>(rect.first_row) * row;
      const double width = static_cast<double>(rect.num_cols) * col;
      const double height = static_cast<double>(rect.num_rows) * row;
      fill_category(page_, tensor.category, x, y, width, height);
      if (tensor.partial) page_.stripes(x, y, width, height);
    }
    page_.frame(left, y_, size.width, size.height, kFaintInk);
  }

  const StepGraph& step_;
  std::vector<HeldTensor> tensors_;
  int ranks_;
  double label_ = kLeastLabel;
  double y_ = 0;
  SvgPage page_;
};

}  // namespace

std::string placements_svg(const StepGraph& step, const std::vector<Program>& programs) {
  return PlacementsPicture(step, programs).str();
}

}  // namespace tessera
