#include "draw/plan_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/text/ranks_text.h"
#include "base/text/text.h"
#include "draw/category_color.h"
#include "draw/plan_step_svg.h"
#include "draw/run_title.h"
#include "draw/svg.h"

namespace tessera {
namespace {

constexpr double kMargin = 16, kLeastLabel = 170, kColumn = 160, kBars = 220, kRow = 19;
constexpr double kTrafficRow = 25, kTrafficBar = 5;  // a lane of its own below the digits
constexpr double kMostColumn = 240, kLeastForText = 13;
constexpr double kStepWidth = 640;  // of what lies between the margins, for the parts of a step
constexpr double kBarGap = 12;
constexpr double kLeastPart = 2;  // of a part that is there at all
constexpr size_t kMostColumns = 8;

// The run, and where it is priced: "…, on 8 x h100".
std::string full_title(const Plan& plan) {
  const std::string text = full_run_title(plan.spec, plan.num_parameters, plan.schedule.name);
  if (!plan.step) return text;
  return text + fmt::format(", on {} x {}", with_thousands(plan.step->cluster.devices),
                            plan.step->cluster.device.name);
}

// "fits, 46 % free: 39.4 GiB of 73.0 GiB"; empty where nobody says how much there is.
std::string verdict(const Plan& plan) {
  if (plan.limit_bytes <= 0) return "";
  const double share =
      static_cast<double>(plan.peak_bytes()) / static_cast<double>(plan.limit_bytes);
  const std::string figures =
      fmt::format("{} of {}", human_bytes(plan.peak_bytes()), human_bytes(plan.limit_bytes));
  if (plan.fits())
    return fmt::format("fits, {:.0f} % free: {}", std::floor(100 * (1 - share)), figures);
  return fmt::format("does not fit: {:.{}f} times too large, {}", share, share < 9.5 ? 1 : 0,
                     figures);
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
  // A class names its first rank alone; all of its ranks are at one place of the pipeline.
  [[nodiscard]] bool are_all_known() const { return count == static_cast<int64_t>(ranks.size()); }
  [[nodiscard]] std::string name() const {
    if (are_all_known()) return ranks_text(ranks);
    return fmt::format("{} ranks from {}", with_thousands(count), ranks.front());
  }
  [[nodiscard]] std::string coords(const Mesh& mesh) const {
    if (are_all_known()) return shared_coords(mesh, ranks);
    if (mesh.size(Axis::kPp) == 1) return "";
    const auto [first, last] = std::minmax_element(ranks.begin(), ranks.end(), [&](int a, int b) {
      return mesh.coord(a, Axis::kPp) < mesh.coord(b, Axis::kPp);
    });
    const int64_t from = mesh.coord(*first, Axis::kPp), to = mesh.coord(*last, Axis::kPp);
    return from == to ? fmt::format("pp{}", from) : fmt::format("pp{} to pp{}", from, to);
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
        title_(full_title(plan)),
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
    const auto columns = static_cast<double>(kinds_.size());
    const double room = (kStepWidth - label_) / columns;
    column_ = std::max(kColumn, plan.step ? room : std::min(room, kMostColumn));
    width_ = label_ + columns * column_;
  }

  std::string str() {
    draw_title();
    for (size_t k = 0; k < kinds_.size(); ++k) draw_bar(k);
    y_ += kBars + 24;
    draw_heads();
    draw_memory();
    draw_traffic();
    draw_note();
    if (plan_.step) y_ = draw_planned_step(page_, plan_, {kMargin, y_, width_});
    return page_.str(
        width_ + 2 * kMargin, y_ + kMargin, title_,
        "memory of a rank by what it is for, and what it sends in a step; " + verdict(plan_));
  }

 private:
  void draw_title() {
    y_ = 8;
    for (const std::string& line : lines_of(title_, 15, width_)) {
      page_.text(kMargin, y_ + 16, 15, kTitleInk, Anchor::kStart, line);
      y_ += 19;
    }
    const std::string judged = verdict(plan_);
    if (!judged.empty()) {
      page_.text(kMargin, y_ + 15, 13, plan_.fits() ? kTitleInk : kBadInk, Anchor::kStart, judged);
      y_ += 19;
    }
    y_ += 16;
  }

  [[nodiscard]] std::string traffic_title() const {
    if (plan_.source == PlanSource::kClosedForms) return "what it sends is not known call by call";
    return sent_.empty() ? "one rank: nothing is sent" : "sent per step: calls, bytes";
  }

  [[nodiscard]] double left_of(size_t column) const {
    return kMargin + label_ + static_cast<double>(column) * column_;
  }
  [[nodiscard]] double right_of(size_t column) const { return left_of(column) + column_; }
  void cell(size_t column, std::string_view ink, const std::string& text) {
    page_.text(right_of(column), y_ + 13, 12, ink, Anchor::kEnd, text);
  }
  void label(std::string_view ink, const std::string& text) {
    page_.text(kMargin + 20, y_ + 13, 12, ink, Anchor::kStart, text);
  }

  void draw_bar(size_t column) {
    const RankKind& kind = kinds_[column];
    const double thick = kinds_.size() == 1 ? column_ - kBarGap : 0.6 * column_;
    const double x = right_of(column) - thick;
    double y = y_ + 16 + kBars;
    for (const ArenaKind arena : kTrainingArenas) {
      const int64_t bytes = kind.memory[static_cast<size_t>(arena)];
      if (bytes == 0) continue;
      const double height = std::max(
          kBars * static_cast<double>(bytes) / static_cast<double>(most_bytes_), kLeastPart);
      y -= height;
      fill_category(page_, arena, x, y, thick, height);
      if (height < kLeastForText) continue;
      page_.text(x + thick / 2, y + height / 2 + 4, 11, ink_on(color_of(arena)), Anchor::kMiddle,
                 human_bytes(bytes));
    }
    page_.text(x + thick / 2, y - 5, 12, kTitleInk, Anchor::kMiddle,
               human_bytes(kind.total_bytes()));
  }

  void draw_heads() {
    for (size_t k = 0; k < kinds_.size(); ++k) {
      cell(k, kTitleInk, kinds_[k].name());
      const std::string coords = kinds_[k].coords(plan_.mesh);
      if (text_pixels(coords, 11) > column_) continue;  // of one rank of a large mesh
      page_.text(right_of(k), y_ + 13 + kRow * 0.8, 11, kFaintInk, Anchor::kEnd, coords);
    }
    page_.text(kMargin, y_ + 13, 12, kTitleInk, Anchor::kStart, "memory in bytes");
    y_ += 2 * kRow;
  }

  void draw_memory() {
    for (const ArenaKind arena : kTrainingArenas) {
      const auto i = static_cast<size_t>(arena);
      const bool used = std::any_of(kinds_.begin(), kinds_.end(),
                                    [i](const RankKind& kind) { return kind.memory[i] > 0; });
      if (used) fill_category(page_, arena, kMargin, y_ + 2, 13, 13);
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
      y_ += kTrafficRow;
    }
  }

  void draw_sent(size_t column, const std::string& group, const std::string& op) {
    const std::vector<Traffic>& traffic = kinds_[column].traffic;
    const auto found = std::find_if(traffic.begin(), traffic.end(), [&](const Traffic& t) {
      return t.group == group && t.op == op;
    });
    if (found == traffic.end()) return;
    const double width = (column_ - kBarGap) * static_cast<double>(found->bytes_sent) /
                         static_cast<double>(std::max<int64_t>(most_sent_, 1));
    page_.area(right_of(column) - width, y_ + kRow - 2, width, kTrafficBar,
               hex(color_of(ArenaKind::kCommunication), 0.4));
    cell(column, kInk, with_thousands(found->bytes_sent));
    page_.text(left_of(column) + kBarGap, y_ + 13, 11, kFaintInk, Anchor::kStart,
               fmt::format("{} x", with_thousands(found->calls)));
  }

  void draw_note() {
    if (dropped_ == 0) return;
    y_ += 0.5 * kRow;
    label(kFaintInk,
          fmt::format("{} more kinds of ranks, which need less memory, are not shown", dropped_));
    y_ += kRow;
  }

  const Plan& plan_;
  std::string title_;
  std::vector<RankKind> kinds_;
  size_t dropped_;
  std::vector<std::pair<std::string, std::string>> sent_;  // group and collective
  int64_t most_bytes_ = 1, most_sent_ = 0;
  double label_ = kLeastLabel, column_ = kColumn, width_ = 0;
  double y_ = 0;
  SvgPage page_;
};

}  // namespace

std::string plan_svg(const Plan& plan) { return PlanPicture(plan).str(); }

}  // namespace tessera
