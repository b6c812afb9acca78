#include "draw/plan_svg.h"

#include <fmt/format.h>

#include <algorithm>

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

// Ranks that nobody can tell apart by their figures.
struct RankKind {
  std::vector<int> ranks;
  const Program* program = nullptr;
  std::vector<Traffic> traffic;
};

std::vector<RankKind> kinds_of(const std::vector<Program>& programs) {
  std::vector<RankKind> kinds;
  for (const Program& program : programs) {
    std::vector<Traffic> traffic = traffic_of(program);
    const auto same = [&](const RankKind& kind) {
      return kind.program->arena_bytes == program.arena_bytes && kind.traffic == traffic;
    };
    const auto found = std::find_if(kinds.begin(), kinds.end(), same);
    if (found != kinds.end()) {
      found->ranks.push_back(program.rank);
    } else {
      kinds.push_back({{program.rank}, &program, std::move(traffic)});
    }
  }
  return kinds;
}

// Of too many kinds the ones that need most memory, still in order of rank.
size_t keep_largest(std::vector<RankKind>& kinds) {
  if (kinds.size() <= kMostColumns) return 0;
  const size_t dropped = kinds.size() - kMostColumns;
  std::stable_sort(kinds.begin(), kinds.end(), [](const RankKind& a, const RankKind& b) {
    return a.program->total_bytes() > b.program->total_bytes();
  });
  kinds.resize(kMostColumns);
  std::sort(kinds.begin(), kinds.end(),
            [](const RankKind& a, const RankKind& b) { return a.ranks < b.ranks; });
  return dropped;
}

class PlanPicture {
 public:
  PlanPicture(const StepGraph& step, const std::vector<Program>& programs)
      : step_(step), kinds_(kinds_of(programs)), dropped_(keep_largest(kinds_)) {
    for (const RankKind& kind : kinds_) {
      most_bytes_ = std::max(most_bytes_, kind.program->total_bytes());
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
    page_.text(kMargin, 24, 15, kTitleInk, Anchor::kStart, run_title(step_));
    page_.text(kMargin, 42, 12, kInk, Anchor::kStart, "memory of a rank, and what it sends");
    for (size_t k = 0; k < kinds_.size(); ++k) draw_bar(k);
    y_ = kTitle + kBars + 24;
    draw_heads();
    draw_memory();
    draw_traffic();
    draw_note();
    const double width = std::max(right_of(kinds_.size() - 1), text_pixels(run_title(step_), 15));
    return page_.str(width + 2 * kMargin, y_ + kMargin);
  }

 private:
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
    const Program& program = *kinds_[column].program;
    const double x = right_of(column) - kBarWidth;
    double y = kTitle + 16 + kBars;
    for (const ArenaKind arena : kAllArenas) {
      const auto i = static_cast<size_t>(arena);
      const double height =
          kBars * static_cast<double>(program.arena_bytes[i]) / static_cast<double>(most_bytes_);
      if (height <= 0) continue;
      y -= height;
      page_.box(x, y, kBarWidth, height, hex(color_of(arena)));
      if (height < kLeastForText) continue;
      page_.text(x + kBarWidth / 2, y + height / 2 + 4, 11, kWhite, Anchor::kMiddle,
                 human_bytes(program.arena_bytes[i]));
    }
    page_.text(x + kBarWidth / 2, y - 5, 12, kTitleInk, Anchor::kMiddle,
               human_bytes(program.total_bytes()));
  }

  void draw_heads() {
    for (size_t k = 0; k < kinds_.size(); ++k) {
      cell(k, kTitleInk, ranks_text(kinds_[k].ranks));
      const std::string coords = shared_coords(step_.mesh, kinds_[k].ranks);
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
        cell(k, kInk, with_thousands(kinds_[k].program->arena_bytes[i]));
      }
      y_ += kRow;
    }
    label(kTitleInk, "total");
    for (size_t k = 0; k < kinds_.size(); ++k) {
      cell(k, kTitleInk, with_thousands(kinds_[k].program->total_bytes()));
    }
    y_ += 1.6 * kRow;
  }

  void draw_traffic() {
    page_.text(kMargin, y_ + 13, 12, kTitleInk, Anchor::kStart,
               sent_.empty() ? "one rank: nothing is sent" : "sent per step: calls, bytes");
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

  const StepGraph& step_;
  std::vector<RankKind> kinds_;
  size_t dropped_;
  std::vector<std::pair<std::string, std::string>> sent_;  // group and collective
  int64_t most_bytes_ = 1, most_sent_ = 0;
  double label_ = kLeastLabel;
  double y_ = 0;
  SvgPage page_;
};

}  // namespace

std::string plan_svg(const StepGraph& step, const std::vector<Program>& programs) {
  return PlanPicture(step, programs).str();
}

}  // namespace tessera
