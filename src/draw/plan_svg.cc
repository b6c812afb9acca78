#include "draw/plan_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/ranks_text.h"
#include "base/text.h"
#include "draw/category_color.h"
#include "draw/run_title.h"
#include "draw/svg.h"

namespace tessera {
namespace {

constexpr Color kTraffic = {66, 133, 200};

constexpr double kMargin = 16, kLeastLabel = 170, kColumn = 160, kTitle = 58, kBars = 220,
                 kRow = 19;
constexpr double kBarWidth = 92, kLeastForText = 13;
constexpr size_t kMostColumns = 8;
// Bars that lie, one for every place in the pipeline.
constexpr double kPlaceLabel = 150, kPlace = 520, kThick = 14, kFigures = 190;
constexpr double kPlacesWidth = kPlaceLabel + kPlace + kFigures;
constexpr std::string_view kLimitInk = "#c00000";

struct TimePart {
  std::string name;
  double seconds = 0;
  Color color;
};

std::vector<TimePart> time_parts(const StepTime& time) {
  constexpr std::array<Color, kNumCommAxes> kAxes = {
      {{200, 84, 84}, {216, 118, 96}, {186, 92, 140}, {226, 146, 52}, {138, 106, 184}}};
  std::vector<TimePart> parts = {{"forward", time.forward_s, {116, 169, 216}},
                                 {"backward", time.backward_s(), {66, 133, 200}}};
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    const auto a = static_cast<size_t>(axis);
    parts.push_back({fmt::format("exposed: {}", name_of(static_cast<CommAxis>(axis))),
                     time.exposed_s[a], kAxes[a]});
  }
  parts.push_back({"bubble", time.bubble_s, {200, 200, 200}});
  parts.push_back({"optimizer", time.optimizer_s, {46, 148, 110}});
  std::erase_if(parts, [](const TimePart& part) { return part.seconds <= 0; });
  return parts;
}

// Ranks that nobody can tell apart by their figures.
struct RankKind {
  std::vector<int> ranks;  // all of them, or of a class the first
  int64_t count = 0;
  ArenaBytes memory = {};
  std::vector<Traffic> traffic;
  [[nodiscard]] int64_t total_bytes() const {
    return std::accumulate(memory.begin(), memory.end(), int64_t{0});
  }
  [[nodiscard]] std::string name() const {
    if (count == static_cast<int64_t>(ranks.size())) return ranks_text(ranks);
    return fmt::format("{} ranks from {}", with_thousands(count), ranks.front());
  }
};

void add_kind(std::vector<RankKind>& kinds, RankKind one) {
  const auto same = [&](const RankKind& kind) {
    return kind.memory == one.memory && kind.traffic == one.traffic;
  };
  const auto found = std::find_if(kinds.begin(), kinds.end(), same);
  if (found == kinds.end()) {
    kinds.push_back(std::move(one));
    return;
  }
  found->ranks.insert(found->ranks.end(), one.ranks.begin(), one.ranks.end());
  found->count += one.count;
}

std::vector<RankKind> kinds_of(const Plan& plan) {
  std::vector<RankKind> kinds;
  for (const PlannedRank& rank : plan.ranks) {
    add_kind(kinds, {{rank.rank}, 1, rank.memory, rank.traffic});
  }
  if (!kinds.empty()) return kinds;
  for (const PlannedClass& one : plan.classes) {
    add_kind(kinds, {{one.first_rank}, one.ranks, one.memory, one.traffic});
  }
  return kinds;
}

// Where there are too many kinds, keeps those that need most memory, still in order of rank.
size_t keep_largest(std::vector<RankKind>& kinds) {
  if (kinds.size() <= kMostColumns) return 0;
  const size_t dropped = kinds.size() - kMostColumns;
  std::stable_sort(kinds.begin(), kinds.end(), [](const RankKind& a, const RankKind& b) {
    return a.total_bytes() > b.total_bytes();
  });
  kinds.resize(kMostColumns);
  std::sort(kinds.begin(), kinds.end(),
            [](const RankKind& a, const RankKind& b) { return a.ranks < b.ranks; });
  return dropped;
}

class PlanPicture {
 public:
  explicit PlanPicture(const Plan& plan)
      : plan_(plan),
        title_(run_title(plan.spec, plan.num_parameters, plan.schedule.name)),
        kinds_(kinds_of(plan)),
        dropped_(keep_largest(kinds_)) {
    for (const RankKind& kind : kinds_) {
      most_bytes_ = std::max(most_bytes_, kind.total_bytes());
      for (const Traffic& t : kind.traffic) {
        if (t.bytes_sent == 0) continue;  // receives
        most_sent_ = std::max(most_sent_, t.bytes_sent);
        const std::pair<std::string, std::string> row = {t.group, t.op};
        if (std::find(sent_.begin(), sent_.end(), row) == sent_.end()) sent_.push_back(row);
      }
    }
    std::sort(sent_.begin(), sent_.end());
    for (const auto& [group, op] : sent_) {
      label_ = std::max(label_, text_pixels(group + " " + op, 12) + 30);
    }
  }

  std::string str() {
    page_.text(kMargin, 24, 15, kTitleInk, Anchor::kStart, title_);
    page_.text(kMargin, 42, 12, kInk, Anchor::kStart, subtitle());
    for (size_t k = 0; k < kinds_.size(); ++k) draw_bar(k);
    y_ = kTitle + kBars + 24;
    draw_heads();
    draw_memory();
    draw_traffic();
    draw_note();
    double width = std::max(right_of(kinds_.size() - 1), text_pixels(title_, 15));
    if (plan_.step) {
      draw_places();
      draw_time();
      width = std::max(width, kPlacesWidth);
    }
    return page_.str(width + 2 * kMargin, y_ + kMargin);
  }

 private:
  [[nodiscard]] std::string subtitle() const {
    const std::string text = "memory of a rank, and what it sends";
    if (!plan_.step) return text;
    const std::string& model = plan_.spec.model.preset;
    return fmt::format("{} on {} x {}: {}", model.empty() ? "a model" : model,
                       plan_.step->cluster.devices, plan_.step->cluster.device.name, text);
  }

  [[nodiscard]] std::string traffic_title() const {
    if (plan_.source == PlanSource::kClosedForms) return "what it sends is not known call by call";
    return sent_.empty() ? "one rank: nothing is sent" : "sent per step: calls, bytes";
  }

  [[nodiscard]] double left_of(size_t column) const {
    return kMargin + label_ + static_cast<double>(column) * kColumn;
  }
  [[nodiscard]] double right_of(size_t column) const { return left_of(column) + kColumn - 14; }
  void cell(size_t column, std::string_view ink, const std::string& text) {
    page_.text(right_of(column), y_ + 13, 12, ink, Anchor::kEnd, text);
  }
  void label(std::string_view ink, const std::string& text) {
    page_.text(kMargin + 20, y_ + 13, 12, ink, Anchor::kStart, text);
  }

  void draw_bar(size_t column) {
    const RankKind& kind = kinds_[column];
    const double x = right_of(column) - kBarWidth;
    double y = kTitle + 16 + kBars;
    for (const ArenaKind arena : kAllArenas) {
      const auto i = static_cast<size_t>(arena);
      const double height =
          kBars * static_cast<double>(kind.memory[i]) / static_cast<double>(most_bytes_);
      if (height <= 0) continue;
      y -= height;
      page_.box(x, y, kBarWidth, height, hex(color_of(arena)));
      if (height < kLeastForText) continue;
      page_.text(x + kBarWidth / 2, y + height / 2 + 4, 11, kWhite, Anchor::kMiddle,
                 human_bytes(kind.memory[i]));
    }
    page_.text(x + kBarWidth / 2, y - 5, 12, kTitleInk, Anchor::kMiddle,
               human_bytes(kind.total_bytes()));
  }

  void draw_heads() {
    for (size_t k = 0; k < kinds_.size(); ++k) {
      cell(k, kTitleInk, kinds_[k].name());
      const std::string coords = shared_coords(plan_.mesh, kinds_[k].ranks);
      if (text_pixels(coords, 11) > kColumn) continue;  // of one rank of a large mesh
      page_.text(right_of(k), y_ + 13 + kRow * 0.8, 11, kFaintInk, Anchor::kEnd, coords);
    }
    page_.text(kMargin, y_ + 13, 12, kTitleInk, Anchor::kStart, "memory in bytes");
    y_ += 2 * kRow;
  }

  void draw_memory() {
    for (const ArenaKind arena : kAllArenas) {
      const auto i = static_cast<size_t>(arena);
      page_.box(kMargin, y_ + 2, 13, 13, hex(color_of(arena)));
      label(kInk, std::string(name_of(arena)));
      for (size_t k = 0; k < kinds_.size(); ++k) {
        cell(k, kInk, with_thousands(kinds_[k].memory[i]));
      }
      y_ += kRow;
    }
    label(kTitleInk, "total");
    for (size_t k = 0; k < kinds_.size(); ++k) {
      cell(k, kTitleInk, with_thousands(kinds_[k].total_bytes()));
    }
    y_ += 1.6 * kRow;
  }

  void draw_traffic() {
    page_.text(kMargin, y_ + 13, 12, kTitleInk, Anchor::kStart, traffic_title());
    y_ += kRow;
    for (const auto& [group, op] : sent_) {
      label(kInk, group + " " + op);
      for (size_t k = 0; k < kinds_.size(); ++k) draw_sent(k, group, op);
      y_ += kRow;
    }
  }

  void draw_sent(size_t column, const std::string& group, const std::string& op) {
    const std::vector<Traffic>& traffic = kinds_[column].traffic;
    const auto found = std::find_if(traffic.begin(), traffic.end(), [&](const Traffic& t) {
      return t.group == group && t.op == op;
    });
    if (found == traffic.end()) return;
    const double width = (kColumn - 24) * static_cast<double>(found->bytes_sent) /
                         static_cast<double>(std::max<int64_t>(most_sent_, 1));
    page_.box(right_of(column) + 4 - width, y_ + 1, width, kRow - 3, hex(kTraffic, 0.7));
    cell(column, kInk, with_thousands(found->bytes_sent));
    page_.text(left_of(column) + 8, y_ + 13, 11, kFaintInk, Anchor::kStart,
               fmt::format("{} x", with_thousands(found->calls)));
  }

  void draw_note() {
    if (dropped_ == 0) return;
    y_ += 0.5 * kRow;
    label(kFaintInk,
          fmt::format("{} more kinds of ranks, which need less memory, are not shown", dropped_));
    y_ += kRow;
  }

  // The heaviest of every place in the pipeline, as long as they can be drawn.
  void draw_places() {
    std::map<int, const PlannedClass*> heaviest;
    for (const PlannedClass& one : plan_.classes) {
      const PlannedClass*& known = heaviest[one.pipeline_rank];
      if (known == nullptr || known->total_bytes() < one.total_bytes()) known = &one;
    }
    const int64_t most = std::max(plan_.limit_bytes, plan_.peak_bytes());
    const double scale = most > 0 ? kPlace / static_cast<double>(most) : 0;
    y_ += kRow;
    page_.text(kMargin, y_, 12, kInk, Anchor::kStart, "memory of a rank by place in the pipeline");
    y_ += 0.8 * kRow;
    const double top = y_ - 6;
    for (const auto& [rank, one] : heaviest) draw_place(rank, *one, scale);
    const double limit = kMargin + kPlaceLabel + scale * static_cast<double>(plan_.limit_bytes);
    page_.area(limit - 1, top, 2, y_ - top, kLimitInk);
    page_.text(limit - 4, y_ + 10, 11, kLimitInk, Anchor::kEnd,
               fmt::format("limit {}", human_bytes(plan_.limit_bytes)));
    y_ += 2 * kRow;
  }

  void draw_place(int rank, const PlannedClass& one, double scale) {
    page_.text(kMargin, y_ + 11, 11, kInk, Anchor::kStart, fmt::format("pipeline rank {}", rank));
    double x = kMargin + kPlaceLabel;
    for (const ArenaKind arena : kAllArenas) {
      const double width = scale * static_cast<double>(one.memory[static_cast<size_t>(arena)]);
      page_.area(x, y_, width, kThick, hex(color_of(arena)));
      x += width;
    }
    page_.text(kMargin + kPlaceLabel + kPlace + 8, y_ + 11, 11, kInk, Anchor::kStart,
               human_bytes(one.total_bytes()));
    y_ += kRow;
  }

  void draw_time() {
    const Estimate& estimate = plan_.step->estimate;
    const double step = estimate.time.step_s;
    page_.text(kMargin, y_, 12, kInk, Anchor::kStart,
               fmt::format("a step of {:.3f} s, MFU {:.1f} %", step, 100 * estimate.mfu));
    y_ += kRow;
    double x = kMargin + kPlaceLabel;
    const double top = y_ - 10;
    for (const TimePart& part : time_parts(estimate.time)) {
      const double width = step > 0 ? kPlace * part.seconds / step : 0;
      page_.area(x, top, width, kThick, hex(part.color));
      x += width;
    }
    y_ += kRow;
    for (const TimePart& part : time_parts(estimate.time)) {
      page_.area(kMargin + kPlaceLabel, y_ - 9, 10, 10, hex(part.color));
      page_.text(kMargin + kPlaceLabel + 14, y_, 11, kInk, Anchor::kStart,
                 fmt::format("{}: {:.3f} s", part.name, part.seconds));
      y_ += kRow;
    }
  }

  const Plan& plan_;
  std::string title_;
  std::vector<RankKind> kinds_;
  size_t dropped_;
  std::vector<std::pair<std::string, std::string>> sent_;  // group and collective
  int64_t most_bytes_ = 1, most_sent_ = 0;
  double label_ = kLeastLabel;
  double y_ = 0;
  SvgPage page_;
};

}  // namespace

std::string plan_svg(const Plan& plan) { return PlanPicture(plan).str(); }

}  // namespace tessera
