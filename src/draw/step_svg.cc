#include "draw/step_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text/ranks_text.h"
#include "draw/pass_color.h"
#include "draw/step_text.h"
#include "draw/svg.h"
#include "draw/time_bars.h"

namespace tessera {
namespace {

constexpr double kMargin = 16, kRow = 26, kTitleLine = 19, kAxis = 24, kLegend = 30;
constexpr double kWidth = 1100;       // of the timeline
constexpr double kLeastPixels = 0.5;  // a wait that is shorter is not drawn
constexpr double kLeastTogether = 2;  // waits that are together as wide are seen
constexpr size_t kMostRows = 64;
constexpr double kRoomForWaits = 1.25;  // of the time, where a rank is lost

// In the order of SegmentKind.
constexpr std::array<Color, kNumSegmentKinds> kColors = {
    kForwardColor, kBackwardColor, kInputGradColor, kWeightGradColor, kUpdateColor};

std::string fill_of(SegmentKind kind) { return hex(kColors[static_cast<size_t>(kind)]); }
std::string exposed() { return hex(kExposedColor); }
std::string stuck() { return hex(kExposedColor, 0.65); }

bool holds(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// Up to where the picture goes. Those who wait for a lost rank do so for ever.
double shown_seconds(const StepTimeline& timeline) {
  if (!timeline.lost.has_value()) return timeline.makespan;
  double last = std::max(timeline.makespan, timeline.lost->at_s);
  for (const StuckRank& one : timeline.stuck) last = std::max(last, one.since);
  return last * kRoomForWaits;
}

std::string full_title(const StepTimeline& timeline, const std::string& title) {
  if (!timeline.lost.has_value()) {
    return fmt::format("{}: {}", title, seconds_text(timeline.makespan));
  }
  return fmt::format("{}: rank {} lost after {}", title, timeline.lost->rank,
                     seconds_text(timeline.lost->at_s));
}

class StepPicture {
 public:
  StepPicture(const StepTimeline& timeline, const std::vector<RankActivity>& activities,
              const std::string& title)
      : timeline_(timeline),
        activities_(activities),
        title_(full_title(timeline, title)),
        rows_(rows_to_show(timeline, activities)),
        seconds_(shown_seconds(timeline)),
        scale_(seconds_ > 0 ? kWidth / seconds_ : 0) {
    left_out_ = rows_.size() - std::min(rows_.size(), kMostRows);
    rows_.resize(rows_.size() - left_out_);
    std::vector<double> widths;
    for (const ShownRow& row : rows_) {
      left_ = std::max(left_, kMargin + text_pixels(ranks_text(row.ranks), 12) + 10);
      for (const Segment& segment : activities_[row.of_class].segments) {
        widths.push_back((segment.end - segment.begin) * scale_);
      }
    }
    left_ = std::ceil(left_);
    slice_ = slice_for(widths);
    as_shares_ = are_too_narrow(widths);
  }

  std::string str() {
    const double width = left_ + kWidth + kMargin + 30;
    for (const std::string& line : lines_of(title_, 15, width - 2 * kMargin)) {
      page_.text(kMargin, top_ + 18, 15, kTitleInk, Anchor::kStart, line);
      top_ += kTitleLine;
    }
    top_ += 12;
    for (size_t r = 0; r < rows_.size(); ++r) draw_row(r);
    for (size_t r = 0; r < rows_.size(); ++r) draw_stuck(r);
    draw_lost();
    for (const auto& [x, from, to] : arrows_) page_.arrow(x, from, x, to, kInk);
    draw_axis();
    draw_legend();
    return page_.str(
        width, bottom() + kAxis + kLegend + kMargin, title_,
        "what every rank does over the time of a training step\n" + lost_text(timeline_));
  }

 private:
  [[nodiscard]] double top_of(size_t row) const { return top_ + kRow * static_cast<double>(row); }
  [[nodiscard]] double bottom() const { return top_of(rows_.size()); }
  [[nodiscard]] double x_of(double seconds) const {
    // Hundredths of a pixel: more would only make the file longer.
    return left_ + std::floor(seconds * scale_ * 100 + 0.5) / 100;
  }
  // Where this rank is shown; as many as there are rows: nowhere.
  [[nodiscard]] size_t row_of(int rank) const {
    const auto found = std::find_if(rows_.begin(), rows_.end(),
                                    [rank](const ShownRow& row) { return holds(row.ranks, rank); });
    return static_cast<size_t>(found - rows_.begin());
  }
  [[nodiscard]] TimeBar bar(double begin, double end, std::string fill) const {
    return {x_of(begin), x_of(end) - x_of(begin), std::move(fill)};
  }

  void draw_row(size_t r) {
    const RankActivity& activity = activities_[rows_[r].of_class];
    const double y = top_of(r);
    page_.text(kMargin, y + 17, 12, kInk, Anchor::kStart, ranks_text(rows_[r].ranks));
    page_.box(left_, y, kWidth, kRow, kIdle);
    if (as_shares_) {
      draw_shares(page_, pieces(activity), fills(), {left_, y + 1, kWidth, kRow - 2}, slice_);
    } else {
      draw_each(activity, y);
    }
  }

  void draw_each(const RankActivity& activity, double y) {
    std::vector<TimeBar> bars;
    std::vector<BarLane> mixed;
    auto wait = activity.waits.begin();
    for (const Segment& segment : activity.segments) {
      const TimeBar whole = bar(segment.begin, segment.end, fill_of(segment.kind));
      if (has_many_short_waits(activity, segment, wait)) {
        mixed.push_back({whole.x, y + 1, whole.width, kRow - 2});
        continue;
      }
      bars.push_back(whole);
      bars.back().ink = ink_on(kColors[static_cast<size_t>(segment.kind)]);
      if (segment.micro_batch >= 0) bars.back().label = std::to_string(segment.micro_batch);
    }
    draw_bars(page_, bars, y + 1, kRow - 2);
    draw_mixed(activity, mixed);
    for (const Wait& one : activity.waits) {
      const double x = x_of(one.begin), width = x_of(one.end) - x;
      if (width < kLeastPixels) continue;
      page_.area(x, y + 1, width, kRow - 2, one.group.empty() ? std::string(kIdle) : exposed());
    }
    draw_labels(page_, bars, y + 1, kRow - 2);
  }

  // Waits that are too short to be drawn, but together long enough to be seen. Segments come in
  // order, and `wait` goes along.
  [[nodiscard]] bool has_many_short_waits(const RankActivity& activity, const Segment& segment,
                                          std::vector<Wait>::const_iterator& wait) const {
    while (wait != activity.waits.end() && wait->end <= segment.begin) ++wait;
    double short_ones = 0;
    for (auto inside = wait; inside != activity.waits.end() && inside->begin < segment.end;
         ++inside) {
      const double width = (inside->end - inside->begin) * scale_;
      if (width < kLeastPixels) short_ones += width;
    }
    return short_ones >= kLeastTogether;
  }

  // Segments between whose kernels a rank waits again and again, as shares of the time.
  void draw_mixed(const RankActivity& activity, const std::vector<BarLane>& lanes) {
    if (lanes.empty()) return;
    std::vector<TimeBar> all = pieces(activity);
    std::sort(all.begin(), all.end(), [](const TimeBar& a, const TimeBar& b) { return a.x < b.x; });
    auto first = all.begin();
    for (const BarLane& lane : lanes) {
      const double right = lane.left + lane.width;
      while (first != all.end() && first->x + first->width <= lane.left) ++first;
      auto last = first;
      while (last != all.end() && last->x < right) ++last;
      draw_shares(page_, {first, last}, fills(), lane, std::min(slice_, lane.width));
    }
  }

  // Bars that do not overlap: segments without the waits inside them, and waits for communication.
  [[nodiscard]] std::vector<TimeBar> pieces(const RankActivity& activity) const {
    std::vector<TimeBar> bars;
    for (const Segment& piece : busy_pieces(activity)) {
      bars.push_back(bar(piece.begin, piece.end, fill_of(piece.kind)));
    }
    for (const Wait& one : activity.waits) {
      if (!one.group.empty()) bars.push_back(bar(one.begin, one.end, exposed()));
    }
    return bars;
  }

  static std::vector<std::string> fills() {
    std::vector<std::string> all;
    for (const Color color : kColors) all.push_back(hex(color));
    all.push_back(exposed());
    return all;
  }

  // What stops the ranks of a row in the end; null: nothing does.
  [[nodiscard]] const StuckRank* last_stuck(size_t row) const {
    const StuckRank* last = nullptr;
    for (const StuckRank& one : timeline_.stuck) {
      if (row_of(one.rank) == row && (last == nullptr || one.since >= last->since)) last = &one;
    }
    return last;
  }

  // Once its kernels have ended: what it waits for, and an arrow to the row of whom it waits for.
  void draw_stuck(size_t row) {
    const StuckRank* stuck_rank = last_stuck(row);
    if (stuck_rank == nullptr) return;
    const std::vector<Segment>& segments = activities_[rows_[row].of_class].segments;
    const double busy = segments.empty() ? 0 : segments.back().end;
    const double x = x_of(std::max(stuck_rank->since, busy));
    const double y = top_of(row), room = left_ + kWidth - x;
    page_.area(x, y + 1, room, kRow - 2, stuck());
    const std::vector<int>& absent = stuck_rank->absent;
    for (const std::string& text :
         {"waits for " + stuck_rank->waits_for, fmt::format("waits for {}", ranks_text(absent))}) {
      if (absent.empty() || text_pixels(text, 11) + 16 > room) continue;
      page_.text(x + 12, y + 17, 11, kBarInk, Anchor::kStart, text);
      break;
    }
    const size_t other = absent.empty() ? row : row_of(absent.front());
    if (other == rows_.size() || other == row) return;
    const double edge = other > row ? top_of(other) + 3 : top_of(other) + kRow - 3;
    // Those of neighbouring rows that stop at the same time do not lie on each other.
    const double aside = 3 + 3 * static_cast<double>(row % 3);
    arrows_.push_back({x + aside, y + kRow / 2, edge});
  }

  // A rank that is lost waits for nothing.
  void draw_lost() {
    if (!timeline_.lost.has_value()) return;
    const size_t row = row_of(timeline_.lost->rank);
    if (row == rows_.size()) return;
    const double x = x_of(timeline_.lost->at_s), y = top_of(row), room = left_ + kWidth - x;
    page_.area(x, y + 1, room, kRow - 2, kWhite);
    page_.hatch(x, y + 1, room, kRow - 2);
    page_.area(x - 1, y, 2, kRow, kBadInk);
    const double width = text_pixels("lost", 12) + 8;
    if (room < width + 12) return;
    page_.area(x + 8, y + 5, width, kRow - 10, kWhite);
    page_.text(x + 8 + width / 2, y + 17, 12, kBadInk, Anchor::kMiddle, "lost");
  }

  void draw_axis() {
    for (const double at : round_ticks(seconds_)) {
      page_.line(x_of(at), bottom(), x_of(at), bottom() + 4, kFaintInk);
      page_.text(x_of(at), bottom() + 17, 11, kFaintInk, at == 0 ? Anchor::kStart : Anchor::kMiddle,
                 tick_text(at, seconds_));
    }
  }

  // The time that what `seconds_of` counts has in the row that has most of it, in pixels. What has
  // less than half of one is not seen.
  template <typename Count>
  [[nodiscard]] bool is_seen(const Count& seconds_of) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const ShownRow& row) {
      return seconds_of(activities_[row.of_class]) * scale_ >= kLeastPixels;
    });
  }
  [[nodiscard]] bool is_seen(SegmentKind kind) const {
    return is_seen([kind](const RankActivity& activity) {
      // An update is mostly covered by the communication that it waits for.
      if (kind == SegmentKind::kUpdate) return activity.update_s;
      double sum = 0;
      for (const Segment& s : activity.segments) sum += s.kind == kind ? s.end - s.begin : 0;
      return sum;
    });
  }
  [[nodiscard]] bool waits_are_seen() const {
    return is_seen([](const RankActivity& activity) {
      double sum = 0;
      for (const Wait& one : activity.waits) sum += one.group.empty() ? 0 : one.end - one.begin;
      return sum;
    });
  }
  [[nodiscard]] bool idle_is_seen() const {
    return is_seen([](const RankActivity& activity) { return activity.idle_s; });
  }

  void draw_legend() {
    const double y = bottom() + kAxis + 8;
    double x = left_;
    const auto note = [&](std::string_view ink, std::string_view text) {
      page_.text(x, y + 12, 12, ink, Anchor::kStart, text);
      x += kLetterPixels * static_cast<double>(text.size()) + 22;
    };
    const auto entry = [&](const std::string& fill, std::string_view meaning) {
      page_.box(x, y, 14, 14, fill);
      x += 19;
      note(kInk, meaning);
    };
    for (int kind = 0; kind < kNumSegmentKinds; ++kind) {
      const auto segment_kind = static_cast<SegmentKind>(kind);
      if (is_seen(segment_kind)) entry(fill_of(segment_kind), name_of(segment_kind));
    }
    if (waits_are_seen()) entry(exposed(), "waits for communication");
    if (!timeline_.stuck.empty()) entry(stuck(), "waits for ever");
    if (idle_is_seen()) entry(std::string(kIdle), "idle");
    if (as_shares_) note(kInk, "(heights: shares of the time)");
    if (left_out_ > 0) note(kFaintInk, fmt::format("and {} more kinds of rank", left_out_));
  }

  const StepTimeline& timeline_;
  const std::vector<RankActivity>& activities_;
  std::string title_;
  std::vector<ShownRow> rows_;
  size_t left_out_ = 0;
  double seconds_, scale_;
  double left_ = kMargin, top_ = 8;
  double slice_ = 0;
  bool as_shares_ = false;                     // passes are too narrow to be drawn one by one
  std::vector<std::array<double, 3>> arrows_;  // x, from, to: drawn above all rows
  SvgPage page_;
};

}  // namespace

std::string step_svg(const StepTimeline& timeline, const std::vector<RankActivity>& activities,
                     const std::string& title) {
  return StepPicture(timeline, activities, title).str();
}

}  // namespace tessera
