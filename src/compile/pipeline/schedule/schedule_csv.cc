#include "compile/pipeline/schedule/schedule_csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::string_view kPlacement = "placement";

// A cell and where it stands, counted from 1.
struct CsvCell {
  std::string_view text;
  size_t line = 0;
  size_t column = 0;
};

// The lines that mean something, cut into the cells that do.
std::vector<std::vector<CsvCell>> cells_of(std::string_view text) {
  std::vector<std::vector<CsvCell>> lines;
  size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (trim(line).empty() || trim(line).starts_with('#')) continue;
    std::vector<CsvCell> cells;
    for (const std::string_view piece : split(line, ',')) {
      const std::string_view cell = trim(piece);
      if (cell.empty()) continue;
      cells.push_back({cell, number, static_cast<size_t>(cell.data() - line.data()) + 1});
    }
    if (!cells.empty()) lines.push_back(std::move(cells));
  }
  return lines;
}

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<StagePass> pass_of(char letter) {
  for (const StagePass pass :
       {StagePass::kForward, StagePass::kBackward, StagePass::kInputGrad, StagePass::kWeightGrad}) {
    if (letter_of(pass) == letter) return pass;
  }
  return std::nullopt;
}

class CsvReader {
 public:
  explicit CsvReader(const std::string& file_name) { schedule_.name = file_name; }

  PipelineSchedule read(std::string_view text) {
    const std::vector<std::vector<CsvCell>> lines = cells_of(text);
    require_config(!lines.empty(), "{}: the schedule is empty; begin with placement,0,1,…",
                   schedule_.name);
    read_placement(lines.front());
    for (size_t i = 1; i < lines.size(); ++i) read_rank(lines[i]);
    require_config(static_cast<int>(schedule_.actions.size()) == schedule_.ranks,
                   "{}: the placement names ranks 0 to {}, but {} lines follow it; write one line "
                   "for each rank",
                   schedule_.name, schedule_.ranks - 1, schedule_.actions.size());
    return std::move(schedule_);
  }

 private:
  [[noreturn]] void fail(const CsvCell& cell, const std::string& message) const {
    throw ConfigError(fmt::format("{}:{}:{}: cell {}: {}", schedule_.name, cell.line, cell.column,
                                  in_quotes(cell.text), message));
  }

  void read_placement(const std::vector<CsvCell>& cells) {
    if (cells.front().text != kPlacement) {
      fail(cells.front(), "the first line is placement,0,1,…: the rank of every stage");
    }
    if (cells.size() == 1) fail(cells.front(), "the ranks of the stages are missing");
    for (size_t i = 1; i < cells.size(); ++i) {
      const std::optional<int> rank = whole_number(cells[i].text);
      // More ranks than stages would leave some without work.
      if (!rank || *rank >= static_cast<int>(cells.size()) - 1) {
        fail(cells[i], fmt::format("expected a rank; use 0 to {}", cells.size() - 2));
      }
      schedule_.rank_of_stage.push_back(*rank);
      schedule_.ranks = std::max(schedule_.ranks, *rank + 1);
    }
    schedule_.stages = static_cast<int>(schedule_.rank_of_stage.size());
  }

  void read_rank(const std::vector<CsvCell>& cells) {
    std::vector<StageAction>& actions = schedule_.actions.emplace_back();
    for (const CsvCell& cell : cells) {
      actions.push_back(read_action(cell));
      schedule_.micro_batches = std::max(schedule_.micro_batches, actions.back().micro_batch + 1);
    }
  }

  [[nodiscard]] StageAction read_action(const CsvCell& cell) const {
    constexpr std::string_view kWanted =
        "expected F, B, I or W, the stage, a dot and the micro-batch, as in F0.3";
    const std::optional<StagePass> pass = pass_of(cell.text.front());
    const size_t dot = cell.text.find('.');
    if (!pass || dot == std::string_view::npos) fail(cell, std::string(kWanted));
    const std::optional<int> stage = whole_number(cell.text.substr(1, dot - 1));
    const std::optional<int> micro_batch = whole_number(cell.text.substr(dot + 1));
    if (!stage || !micro_batch) fail(cell, std::string(kWanted));
    if (*stage >= schedule_.stages) {
      fail(cell, fmt::format("there is no stage {}; the placement has 0 to {}", *stage,
                             schedule_.stages - 1));
    }
    if (*micro_batch >= kMaxScheduleCells) {
      fail(cell, fmt::format("micro-batches go up to {}", kMaxScheduleCells - 1));
    }
    return {*pass, *stage, *micro_batch};
  }

  PipelineSchedule schedule_;
};

}  // namespace

PipelineSchedule schedule_from_csv(std::string_view text, const std::string& file_name) {
  PipelineSchedule schedule = CsvReader(file_name).read(text);
  check_schedule(schedule);
  return schedule;
}

std::string to_csv(const PipelineSchedule& schedule) {
  std::string text = fmt::format(
      "# {}: {} ranks, {} stages, {} micro-batches\n{},{}\n", schedule.name, schedule.ranks,
      schedule.stages, schedule.micro_batches, kPlacement, fmt::join(schedule.rank_of_stage, ","));
  for (const std::vector<StageAction>& actions : schedule.actions) {
    std::vector<std::string> cells;
    for (const StageAction& action : actions) cells.push_back(cell_text(action));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

}  // namespace tessera
