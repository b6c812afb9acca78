#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/index.h"
#include "compile/pipeline/schedule/replay.h"
#include "compile/pipeline/schedule/schedule.h"

namespace tessera {
namespace {

// A cell of rank `rank`; the end of its list where something is missing.
struct Cell {
  int rank = 0;
  size_t at = 0;
};

// One line per rank with the cells around the failing one, which stands in brackets.
std::string marked(const PipelineSchedule& schedule, std::span<const Cell> failing) {
  constexpr size_t kAround = 8;
  std::string text;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const std::vector<StageAction>& actions = schedule.actions[index(rank)];
    const auto* mark = std::find_if(failing.data(), failing.data() + failing.size(),
                                    [&](const Cell& cell) { return cell.rank == rank; });
    const bool here = mark != failing.data() + failing.size();
    const size_t centre = here ? mark->at : failing.empty() ? 0 : failing.front().at;
    const size_t first = centre > kAround ? centre - kAround : 0;
    const size_t last = std::min(actions.size(), centre + kAround + 1);
    text += fmt::format("\n  rank {}:{}", rank, first > 0 ? " …" : "");
    for (size_t at = first; at < last; ++at) {
      const std::string cell = cell_text(actions[at]);
      text += here && at == mark->at ? fmt::format(" [{}]", cell) : " " + cell;
    }
    if (here && mark->at >= actions.size()) text += " [end]";
    if (last < actions.size()) text += " …";
  }
  return text;
}

class Checker {
 public:
  explicit Checker(const PipelineSchedule& schedule) : schedule_(schedule) {}

  void run() {
    check_shape();
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      for (size_t at = 0; at < actions(rank).size(); ++at) check_cell({rank, at});
    }
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      for (int m = 0; m < schedule_.micro_batches; ++m) check_complete(stage, m);
    }
    check_no_deadlock();
  }

 private:
  [[nodiscard]] const std::vector<StageAction>& actions(int rank) const {
    return schedule_.actions[index(rank)];
  }

  [[noreturn]] void fail(std::span<const Cell> cells, const std::string& message) const {
    throw ConfigError(
        fmt::format("schedule {}: {}{}", schedule_.name, message, marked(schedule_, cells)));
  }

  [[noreturn]] void fail(const Cell& cell, const std::string& message) const {
    const std::vector<StageAction>& list = actions(cell.rank);
    const std::string what = cell.at < list.size() ? cell_text(list[cell.at]) : "the end";
    fail(std::span(&cell, 1),
         fmt::format("rank {}, cell {} ({}): {}", cell.rank, cell.at + 1, what, message));
  }

  void check_shape() {
    const PipelineSchedule& s = schedule_;
    require_config(
        s.ranks >= 1 && s.stages >= s.ranks && s.micro_batches >= 1,
        "schedule {}: {} ranks, {} stages and {} micro-batches; every rank needs a stage "
        "and there must be a micro-batch",
        s.name, s.ranks, s.stages, s.micro_batches);
    require_config(
        s.stages <= kMaxScheduleCells / s.micro_batches,
        "schedule {}: {} stages of {} micro-batches are more than the {} that a schedule "
        "is written out for",
        s.name, s.stages, s.micro_batches, kMaxScheduleCells);
    require_config(s.rank_of_stage.size() == index(s.stages) && s.actions.size() == index(s.ranks),
                   "schedule {}: {} stages have {} ranks listed, and {} ranks have {} lists; one "
                   "each",
                   s.name, s.stages, s.rank_of_stage.size(), s.ranks, s.actions.size());
    for (int stage = 0; stage < s.stages; ++stage) {
      const int rank = s.rank_of_stage[index(stage)];
      require_config(rank >= 0 && rank < s.ranks,
                     "schedule {}: stage {} is on rank {}; use 0 to {}", s.name, stage, rank,
                     s.ranks - 1);
    }
    passes_of_.resize(index(s.stages) * index(s.micro_batches));
  }

  using Passes = std::array<bool, 4>;
  Passes& passes_of(int stage, int micro_batch) {
    return passes_of_[index(stage) * index(schedule_.micro_batches) + index(micro_batch)];
  }
  static bool has(const Passes& passes, StagePass pass) {
    return passes[static_cast<size_t>(pass)];
  }

  void check_cell(const Cell& cell) {
    const StageAction& action = actions(cell.rank)[cell.at];
    if (action.stage < 0 || action.stage >= schedule_.stages) {
      fail(cell,
           fmt::format("there is no stage {}; use 0 to {}", action.stage, schedule_.stages - 1));
    }
    if (action.micro_batch < 0 || action.micro_batch >= schedule_.micro_batches) {
      fail(cell, fmt::format("there is no micro-batch {}; use 0 to {}", action.micro_batch,
                             schedule_.micro_batches - 1));
    }
    const int owner = schedule_.rank_of_stage[index(action.stage)];
    if (owner != cell.rank) {
      fail(cell, fmt::format("stage {} is on rank {}", action.stage, owner));
    }
    Passes& before = passes_of(action.stage, action.micro_batch);
    if (has(before, action.pass)) fail(cell, "it is there twice");
    const std::string order = what_is_out_of_order(before, action.pass);
    if (!order.empty()) fail(cell, order);
    before[static_cast<size_t>(action.pass)] = true;
  }

  // Empty if `pass` may follow what the stage has done for this micro-batch.
  static std::string what_is_out_of_order(const Passes& before, StagePass pass) {
    if (pass == StagePass::kForward) return "";
    if (!has(before, StagePass::kForward)) return "it comes before its forward (F)";
    if (has(before, StagePass::kBackward)) return "a whole backward (B) has been done before";
    if (pass == StagePass::kBackward && has(before, StagePass::kInputGrad)) {
      return "its input gradient (I) has been done before; use W here, or B alone";
    }
    if (pass == StagePass::kWeightGrad && !has(before, StagePass::kInputGrad)) {
      return "it comes before its input gradient (I)";
    }
    return "";
  }

  void check_complete(int stage, int micro_batch) {
    const Passes& passes = passes_of(stage, micro_batch);
    const auto missing = [&](StagePass pass) {
      const int rank = schedule_.rank_of_stage[index(stage)];
      fail(Cell{rank, actions(rank).size()},
           fmt::format("{} is missing", cell_text({pass, stage, micro_batch})));
    };
    if (!has(passes, StagePass::kForward)) missing(StagePass::kForward);
    if (has(passes, StagePass::kBackward)) return;
    if (!has(passes, StagePass::kInputGrad)) missing(StagePass::kBackward);
    if (!has(passes, StagePass::kWeightGrad)) missing(StagePass::kWeightGrad);
  }

  void check_no_deadlock() const {
    const ScheduleTimeline timeline = replay(schedule_);
    std::vector<Cell> stuck;
    std::vector<std::string> waits;
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      const size_t done = timeline.ranks[index(rank)].size();
      if (done == actions(rank).size()) continue;
      stuck.push_back({rank, done});
      waits.push_back(fmt::format("rank {} at cell {} ({}) {}", rank, done + 1,
                                  cell_text(actions(rank)[done]), awaited(actions(rank)[done])));
    }
    if (stuck.empty()) return;
    fail(stuck, fmt::format("ranks wait for each other for ever: {}", fmt::join(waits, "; ")));
  }

  // A forward waits for the stage before it; anything else that is stuck for the one after it.
  [[nodiscard]] std::string awaited(const StageAction& action) const {
    const int stage = action.stage + (action.pass == StagePass::kForward ? -1 : 1);
    return fmt::format("waits for {} of micro-batch {} from rank {}, stage {}",
                       action.pass == StagePass::kForward ? "the output" : "the input gradient",
                       action.micro_batch, schedule_.rank_of_stage[index(stage)], stage);
  }

  const PipelineSchedule& schedule_;
  std::vector<Passes> passes_of_;
};

}  // namespace

void check_schedule(const PipelineSchedule& schedule) { Checker(schedule).run(); }

}  // namespace tessera
