#include "draw/schedule_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "draw/letter_columns.h"

namespace tessera {
namespace {

class TextTimeline {
 public:
  TextTimeline(const SimulatedSchedule& simulated, size_t width)
      : schedule_(simulated.schedule),
        timeline_(simulated.timeline),
        unit_(shortest(simulated.timeline)),
        units_(columns(simulated.timeline.makespan)) {
    for (const auto& actions : timeline_.ranks) {
      for (const TimedAction& timed : actions) {
        cell_width_ = std::max(cell_width_, cell(timed.action).size() + 1);
      }
    }
    cell_width_ = std::max(cell_width_, fmt::formatted_size("{}", units_) + 1);
    label_width_ = fmt::formatted_size("rank {}", schedule_.ranks - 1) + 1;
    const size_t room = width > label_width_ ? width - label_width_ : 0;
    units_of_block_ = std::max<size_t>(1, room / cell_width_);
  }

  [[nodiscard]] std::string str() const {
    std::vector<std::string> rows;
    for (const auto& actions : timeline_.ranks) rows.push_back(row(actions));
    std::string text;
    for (size_t first = 0; first < units_; first += units_of_block_) {
      const size_t count = std::min(units_of_block_, units_ - first);
      text += first == 0 ? "" : "\n";
      text += line("time", axis(first, count));
      for (size_t rank = 0; rank < rows.size(); ++rank) {
        text += line(fmt::format("rank {}", rank),
                     rows[rank].substr(first * cell_width_, count * cell_width_));
      }
    }
    return text;
  }

 private:
  // The unit of time across; all other durations are drawn as whole multiples of it.
  static double shortest(const ScheduleTimeline& timeline) {
    double least = timeline.makespan;
    for (const auto& actions : timeline.ranks) {
      for (const TimedAction& timed : actions) {
        if (timed.end > timed.begin) least = std::min(least, timed.end - timed.begin);
      }
    }
    return least > 0 ? least : 1;
  }

  [[nodiscard]] size_t columns(double time) const {
    return static_cast<size_t>(std::llround(time / unit_));
  }

  [[nodiscard]] std::string cell(const StageAction& action) const {
    if (schedule_.stages > schedule_.ranks) return cell_text(action);
    return fmt::format("{}{}", letter_of(action.pass), action.micro_batch);
  }

  [[nodiscard]] std::string row(const std::vector<TimedAction>& actions) const {
    std::string text;
    for (size_t unit = 0; unit < units_; ++unit) text += fmt::format("{:<{}}", ".", cell_width_);
    for (const TimedAction& timed : actions) {
      const size_t begin = columns(timed.begin) * cell_width_;
      const size_t end = columns(timed.end) * cell_width_;
      if (end <= begin) continue;
      std::string box = fmt::format("{:-<{}} ", cell(timed.action), end - begin - 1);
      if (end - begin == cell_width_) std::replace(box.begin(), box.end(), '-', ' ');
      text.replace(begin, end - begin, box);
    }
    return text;
  }

  [[nodiscard]] std::string axis(size_t first, size_t count) const {
    std::string text;
    for (size_t unit = first; unit < first + count; ++unit) {
      text += fmt::format("{:<{}}", unit, cell_width_);
    }
    return text;
  }

  [[nodiscard]] std::string line(std::string_view label, std::string_view cells) const {
    const std::string text = fmt::format("{:<{}}{}", label, label_width_, cells);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }

  const PipelineSchedule& schedule_;
  const ScheduleTimeline& timeline_;
  double unit_;
  size_t units_;
  size_t cell_width_ = 3;
  size_t label_width_ = 0;
  size_t units_of_block_ = 1;
};

}  // namespace

std::string schedule_text(const SimulatedSchedule& simulated, size_t width) {
  return TextTimeline(simulated, width).str();
}

std::string schedule_rows(const SimulatedSchedule& simulated, const std::string& end,
                          size_t columns) {
  constexpr size_t kUsualWidth = 100, kLeastWidth = 12, kMostWidth = 160, kMostRows = 64;
  const auto& [schedule, timeline, facts] = simulated;
  const size_t label = fmt::formatted_size("pp {}", schedule.ranks - 1) + 1;
  const size_t left = columns - std::min(columns, label);
  const size_t width = columns == 0 ? kUsualWidth : std::clamp(left, kLeastWidth, kMostWidth);
  const size_t rows = std::min(timeline.ranks.size(), kMostRows);
  std::string text;
  for (size_t rank = 0; rank < rows; ++rank) {
    LetterColumns row(timeline.makespan, width);
    for (const TimedAction& timed : timeline.ranks[rank]) {
      row.add(letter_of(timed.action.pass), timed.begin, timed.end);
    }
    text += fmt::format("{:<{}}{}\n", fmt::format("pp {}", rank), label,
                        row.str(3 * timeline.ranks[rank].size() > 2 * width));
  }
  text += fmt::format("{:<{}}0{:>{}}\n", "", label, end, width - 1);
  if (rows < timeline.ranks.size()) {
    text += fmt::format("… and {} more ranks of the pipeline\n", timeline.ranks.size() - rows);
  }
  return text;
}

std::string schedule_table(const SimulatedSchedule& simulated) {
  const auto& [schedule, timeline, facts] = simulated;
  TextTable table({{"rank", Align::kRight},
                   {"stages", Align::kLeft},
                   {"busy", Align::kRight},
                   {"idle inside", Align::kRight},
                   {"live at most", Align::kRight}});
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const RankFacts& of_rank = facts.ranks[static_cast<size_t>(rank)];
    table.add_row({std::to_string(rank),
                   fmt::format("{}", fmt::join(stages_of_rank(schedule, rank), " ")),
                   fmt::format("{:g}", of_rank.busy), fmt::format("{:g}", of_rank.idle_inside),
                   std::to_string(of_rank.peak_live)});
  }
  return table.str();
}

}  // namespace tessera
